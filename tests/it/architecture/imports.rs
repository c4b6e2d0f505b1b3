//! Import graph between the files of a crate, read from their tokens.
//!
//! [`Graph::read`] follows `mod` from a crate's root, gathers each module's paths (`use` trees, aliases,
//! globs, `crate::`, `self::`, `super::`, and paths in code), and resolves every path through re-exports to
//! the file that defines its last name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;

use super::tokens::{Import, Module, Read, Segments};

/// File → the files that it imports from, each with the names imported.
pub(crate) type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// What an import leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file of the same crate that defines the name, and the one of the module that it was taken from: another
    /// where that re-exports it.
    File { defines: PathBuf, offers: PathBuf },
    /// A path into another crate, or of the language's own names.
    Outside(Segments),
    /// A path into the same crate that names nothing there.
    Missing(Segments),
}

/// All modules of one crate, by their absolute path.
pub(crate) struct Graph {
    modules: BTreeMap<Segments, Module>,
    with_tests: bool,
}

impl Graph {
    /// Reads the crate whose root file is `root`; without `with_tests`, what is under `#[cfg(test)]` is left out.
    pub(crate) fn read(root: &Path, with_tests: bool) -> Self {
        Self::read_from(root, with_tests, &|file| fs::read_to_string(file).ok())
    }

    /// Reads a crate whose files' texts `text_of` gives.
    pub(crate) fn read_from(
        root: &Path,
        with_tests: bool,
        text_of: &dyn Fn(&Path) -> Option<String>,
    ) -> Self {
        let mut graph = Self {
            modules: BTreeMap::new(),
            with_tests,
        };
        let mut waiting = vec![(Segments::new(), root.to_owned(), true)];
        while let Some((path, file, owns_folder)) = waiting.pop() {
            let text = text_of(&file).unwrap_or_else(|| panic!("no file {}", file.display()));
            let tokens: TokenStream = text
                .parse()
                .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            for child in graph.add_module(&path, &file, tokens) {
                let folder = folder_of(&file, owns_folder);
                let within: PathBuf = child[path.len()..].iter().collect();
                let flat = folder.join(&within).with_extension("rs");
                let nested = folder.join(&within).join("mod.rs");
                if text_of(&flat).is_some() {
                    waiting.push((child, flat, false));
                } else if text_of(&nested).is_some() {
                    waiting.push((child, nested, true));
                }
            }
        }
        graph
    }

    /// Adds a module and those inline within it; returns the modules that have files of their own.
    fn add_module(&mut self, path: &Segments, file: &Path, tokens: TokenStream) -> Vec<Segments> {
        let Read {
            module,
            children,
            inline,
        } = Read::new(file.to_owned(), tokens, self.with_tests);
        self.modules.insert(path.clone(), module);
        let mut outside: Vec<Segments> = children.iter().map(|name| joined(path, name)).collect();
        for (name, tokens) in inline {
            outside.extend(self.add_module(&joined(path, &name), file, tokens));
        }
        outside
    }

    /// Imports between files; those of a file from itself are left out.
    pub(crate) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (path, module) in &self.modules {
            let of_file = edges.entry(module.file.clone()).or_default();
            for (target, name) in self.targets(path, module) {
                match target {
                    Target::File { defines, .. } if defines != module.file => {
                        of_file.entry(defines).or_default().insert(name);
                    }
                    _ => {}
                }
            }
        }
        edges
    }

    /// Every import: the file that has it, and what it leads to.
    pub(crate) fn imports(&self) -> Vec<(PathBuf, Target)> {
        let of_module = |(path, module): (&Segments, &Module)| {
            let targets = self.targets(path, module).into_iter();
            let file = module.file.clone();
            targets.map(move |(target, _)| (file.clone(), target))
        };
        self.modules.iter().flat_map(of_module).collect()
    }

    /// What each name used in the module leads to, with the name.
    fn targets(&self, path: &Segments, module: &Module) -> Vec<(Target, String)> {
        let used = |import: &&Import| {
            !import.reexports
                || module.mentions.contains(&import.name)
                || module.paths.iter().any(|p| p[0] == import.name)
        };
        let imports = module.imports.iter().filter(used).map(|i| &i.target);
        let written = imports.chain(&module.paths);
        let mut found: Vec<_> = written
            .filter_map(|p| Some((self.target(path, p)?, p.last()?.clone())))
            .collect();
        for glob in &module.globs {
            let Some(from) = self.absolute(path, glob) else {
                found.push((Target::Outside(glob.clone()), "*".to_owned()));
                continue;
            };
            let foreign = module.mentions.difference(&module.items);
            let named = |name: &String| {
                let defines = self.named(&from, name, 0)?;
                let offers = self.modules.get(&from)?.file.clone();
                Some((Target::File { defines, offers }, name.clone()))
            };
            found.extend(foreign.filter_map(named));
        }
        found
    }

    /// What a path leads to; `None` for a name of another crate under an imported name.
    fn target(&self, scope: &Segments, path: &Segments) -> Option<Target> {
        let Some(absolute) = self.absolute(scope, path) else {
            return Some(Target::Outside(path.clone()));
        };
        if let Some(defines) = self.file_of(&absolute, 0) {
            let offers = self.offering(&absolute, 0)?;
            return Some(Target::File { defines, offers });
        }
        let anchors = path.iter().take_while(|word| is_anchor(word)).count();
        let from = absolute.len() - (path.len() - anchors);
        let is_known = self.knows(&absolute[..from].to_vec(), absolute.get(from)?, &[]);
        (anchors > 0 && !is_known).then_some(Target::Missing(absolute))
    }

    /// The path from the crate's root; `None` for one that leads into another crate.
    fn absolute(&self, scope: &Segments, path: &[String]) -> Option<Segments> {
        let mut base = scope.clone();
        let mut rest = path;
        let mut anchored = false;
        while let Some((head, tail)) = rest.split_first() {
            match head.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            anchored = true;
            rest = tail;
        }
        if !anchored {
            let head = path.first()?;
            if !self.knows(scope, head, path) {
                return None;
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// True if `name` of the module `at` is its own or imported. The import of `path` itself does not count.
    fn knows(&self, at: &Segments, name: &String, path: &[String]) -> bool {
        let Some(module) = self.modules.get(at) else {
            return false;
        };
        let by_glob = |glob: &Segments| {
            let from = is_anchor(&glob[0])
                .then(|| self.absolute(at, glob))
                .flatten();
            from.is_some_and(|from| from != *at && self.knows(&from, name, path))
        };
        self.modules.contains_key(&joined(at, name))
            || module.items.contains(name)
            || module
                .imports
                .iter()
                .any(|i| i.name == *name && i.target != path)
            || module.globs.iter().any(by_glob)
    }

    /// The file that defines what an absolute path names, re-exports followed; `None` where the crate has no such
    /// name.
    fn file_of(&self, path: &Segments, depth: usize) -> Option<PathBuf> {
        let mut at = Segments::new();
        for name in path {
            let child = joined(&at, name);
            if !self.modules.contains_key(&child) {
                let whole = self.rerouted(&at, path, depth);
                return whole.or_else(|| self.named(&at, name, depth));
            }
            at = child;
        }
        Some(self.modules.get(&at)?.file.clone())
    }

    /// The file of the module that a path takes its name from: private imports followed, re-exports not.
    fn offering(&self, path: &Segments, depth: usize) -> Option<PathBuf> {
        let is_module = |length: &usize| self.modules.contains_key(&path[..*length]);
        let length = (0..=path.len()).rev().find(is_module)?;
        let (at, rest) = path.split_at(length);
        let module = self.modules.get(at)?;
        let private = |import: &&Import| !import.reexports && rest.first() == Some(&import.name);
        let Some(import) = module.imports.iter().find(private).filter(|_| depth < 8) else {
            return Some(module.file.clone());
        };
        let mut through = self.absolute(&at.to_vec(), &import.target)?;
        through.extend(rest[1..].iter().cloned());
        self.offering(&through, depth + 1)
    }

    /// The file of a path that passes through a module which `at` imports under another name.
    fn rerouted(&self, at: &Segments, path: &Segments, depth: usize) -> Option<PathBuf> {
        let module = self.modules.get(at)?;
        let (name, rest) = path[at.len()..].split_first()?;
        let import = module.imports.iter().find(|i| i.name == *name)?;
        let mut through = self.absolute(at, &import.target)?;
        through.extend(rest.iter().cloned());
        (depth < 8).then(|| self.file_of(&through, depth + 1))?
    }

    /// The file that defines `name` of the module `at`; `None` where the module does not know the name.
    fn named(&self, at: &Segments, name: &str, depth: usize) -> Option<PathBuf> {
        let module = self.modules.get(at)?;
        if depth > 8 {
            return None;
        }
        if let Some(child) = self.modules.get(&joined(at, name)) {
            return Some(child.file.clone());
        }
        if module.items.contains(name) {
            return Some(module.file.clone());
        }
        if let Some(import) = module.imports.iter().find(|i| i.name == name) {
            let target = self.absolute(at, &import.target)?;
            return self.file_of(&target, depth + 1);
        }
        let mut globs = module.globs.iter();
        globs.find_map(|glob| self.named(&self.absolute(at, glob)?, name, depth + 1))
    }
}

/// Strongly connected components of more than one file, the greatest first.
pub(crate) fn cycles(edges: &Edges) -> Vec<BTreeSet<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = edges
        .keys()
        .map(|file| (file, reachable(edges, file)))
        .collect();
    let mut found: BTreeSet<BTreeSet<PathBuf>> = BTreeSet::new();
    for (file, reached) in &reach {
        let mutual = reached
            .iter()
            .filter(|other| reach.get(**other).is_some_and(|r| r.contains(file)));
        let component: BTreeSet<PathBuf> = mutual.map(|f| (*f).clone()).collect();
        if component.len() > 1 {
            found.insert(component);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|component| std::cmp::Reverse(component.len()));
    found
}

fn reachable<'a>(edges: &'a Edges, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&PathBuf> = edges[from].keys().collect();
    while let Some(file) = waiting.pop() {
        if seen.insert(file) {
            waiting.extend(edges.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    seen
}

/// The folder where a module's children live.
fn folder_of(file: &Path, owns_folder: bool) -> PathBuf {
    if owns_folder {
        file.parent().unwrap_or(Path::new("")).to_owned()
    } else {
        file.with_extension("")
    }
}

fn is_anchor(word: &str) -> bool {
    matches!(word, "crate" | "self" | "super")
}

fn joined(path: &[String], name: &str) -> Segments {
    let mut longer = path.to_vec();
    longer.push(name.to_owned());
    longer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that `a.rs` with this text imports from, in a crate where `b/inner.rs` defines `Other`.
    fn imported(text: &str) -> Vec<String> {
        let text_of = |file: &Path| match file.to_str()? {
            "mod.rs" => Some("mod a; mod b; pub use b::Other as Thing;".to_owned()),
            "a.rs" => Some(text.to_owned()),
            "b/mod.rs" => Some("mod inner; pub use inner::*;".to_owned()),
            "b/inner.rs" => Some("pub struct Other; fn f(_: crate::a::A) {}".to_owned()),
            _ => None,
        };
        let graph = Graph::read_from(Path::new("mod.rs"), false, &text_of);
        let edges = graph.edges();
        let files = edges[Path::new("a.rs")].keys();
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let is_cycle = files.contains(&"b/inner.rs".to_owned());
        assert_eq!(cycles(&edges).len(), usize::from(is_cycle), "{text}");
        files
    }

    #[test]
    fn imports_are_read_in_all_their_forms() {
        for text in [
            "use crate::b::Other;",
            "use crate::{b::{Other}};",
            "use super::b::Other as O;",
            "use super::Thing;",
            "use super::*; fn f(_: Thing) {}",
            "use crate as root; fn f(_: root::b::Other) {}",
            "mod deep { mod deeper { use super::super::super::b::Other; } }",
            "fn f() { assert_eq!(super::b::Other, 1); }",
            "use crate::b; fn f(_: b::Other) {}",
            "fn f<S>() -> impl Clone + use<S> {} use crate::b::Other;",
        ] {
            let files = imported(&format!("pub struct A; {text}"));
            assert!(
                files.contains(&"b/inner.rs".to_owned()),
                "{text}: {files:?}"
            );
        }
        for text in [
            "// use crate::b::Other;",
            "const S: &str = \"crate::b::Other\";",
            "#[cfg(test)] mod tests { use crate::b::Other; }",
            "use other::b::Other;",
            "use super::*;",
        ] {
            let files = imported(&format!("pub struct A; {text}"));
            assert!(files.is_empty(), "{text}: {files:?}");
        }
    }
}
