//! Names and paths of one module, gathered from its tokens.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Path segments; absolute ones begin at the crate's root.
pub(crate) type Segments = Vec<String>;

/// A name that `use` brings into a module.
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) target: Segments,
    pub(crate) reexports: bool,
}

/// One module: a file, or an inline `mod` within one.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    pub(crate) globs: Vec<Segments>,
    /// Paths in code, as written.
    pub(crate) paths: Vec<Segments>,
    /// Single names in code.
    pub(crate) mentions: BTreeSet<String>,
}

/// Keywords before the name of an item.
const ITEMS: [&str; 9] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "union",
    "macro_rules",
];

/// A module as its tokens tell it, with the names of the modules in it that have files of their own, and its inline
/// ones.
pub(crate) struct Read {
    pub(crate) module: Module,
    pub(crate) children: Vec<String>,
    pub(crate) inline: Vec<(String, TokenStream)>,
}

impl Read {
    /// Reads a module of `file`; without `with_tests`, what is under `#[cfg(test)]` is left out.
    pub(crate) fn new(file: PathBuf, tokens: TokenStream, with_tests: bool) -> Self {
        let mut read = Self {
            module: Module {
                file,
                ..Module::default()
            },
            children: Vec::new(),
            inline: Vec::new(),
        };
        read.read(tokens, with_tests, true);
        read
    }

    fn read(&mut self, tokens: TokenStream, with_tests: bool, at_module: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut public = false;
        while at < tokens.len() {
            let skipped = after_test_item(&tokens, at, at_module);
            if let Some(next) = skipped.filter(|_| !with_tests) {
                at = next;
                continue;
            }
            match &tokens[at] {
                // `impl Iterator + use<'_, T>` imports nothing.
                TokenTree::Ident(word) if word == "use" && !is_punct(tokens.get(at + 1), '<') => {
                    at = self.read_use(&tokens, at + 1, public);
                }
                TokenTree::Ident(word) if word == "mod" && at_module => {
                    at = self.read_mod(&tokens, at + 1);
                }
                TokenTree::Ident(word) => {
                    if at_module && ITEMS.contains(&word.to_string().as_str()) {
                        self.add_item(&tokens[at + 1..]);
                    }
                    public = word == "pub";
                    at = self.read_path(&tokens, at);
                    if public && is_parenthesis(tokens.get(at)) {
                        at += 1;
                    }
                    continue;
                }
                TokenTree::Group(group) => {
                    self.read(group.stream(), with_tests, false);
                    at += 1;
                }
                _ => at += 1,
            }
            public = false;
        }
    }

    fn add_item(&mut self, after: &[TokenTree]) {
        let name = after.iter().find_map(|token| match token {
            TokenTree::Ident(word) if !ITEMS.contains(&word.to_string().as_str()) => {
                Some(word.to_string())
            }
            _ => None,
        });
        self.module.items.extend(name);
    }

    fn read_mod(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        if let Some(TokenTree::Ident(name)) = tokens.get(at) {
            match tokens.get(at + 1) {
                Some(TokenTree::Group(group)) => {
                    self.inline.push((name.to_string(), group.stream()));
                }
                _ => self.children.push(name.to_string()),
            }
        }
        at + 2
    }

    /// A path or a single name of the code; returns where the code goes on.
    fn read_path(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let follows_path = start >= 2 && is_colons(tokens, start - 2);
        let field = start >= 1 && is_punct(tokens.get(start - 1), '.');
        let mut segments = vec![tokens[start].to_string()];
        let mut at = start + 1;
        while is_colons(tokens, at) {
            let Some(TokenTree::Ident(next)) = tokens.get(at + 2) else {
                break;
            };
            segments.push(next.to_string());
            at += 3;
        }
        if segments.len() > 1 && !follows_path {
            self.module.paths.push(segments);
        } else if !follows_path && !field {
            self.module.mentions.extend(segments);
        }
        at
    }

    fn read_use(&mut self, tokens: &[TokenTree], start: usize, public: bool) -> usize {
        let length = tokens[start..]
            .iter()
            .take_while(|token| !is_punct(Some(token), ';'))
            .count();
        let tree = &tokens[start..start + length];
        // A leading `::` says that a crate's name follows.
        let prefix = match is_colons(tree, 0) {
            true => vec![String::new()],
            false => Vec::new(),
        };
        self.use_tree(&prefix, tree, public);
        start + length + 1
    }

    fn use_tree(&mut self, prefix: &[String], tree: &[TokenTree], public: bool) {
        let mut path = prefix.to_vec();
        let mut at = 0;
        while let Some(token) = tree.get(at) {
            match token {
                TokenTree::Ident(word) if word == "as" => break,
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|token| is_punct(Some(token), ',')) {
                        if !part.is_empty() {
                            self.use_tree(&path, part, public);
                        }
                    }
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.module.globs.push(path);
                    return;
                }
                _ => {}
            }
            at += 1;
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let alias = tree.get(at + 1).map(ToString::to_string);
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        self.module.imports.push(Import {
            name,
            target: path,
            reexports: public,
        });
    }
}

/// Where the code goes on after an item under `#[cfg(test)]` that begins at `at`.
fn after_test_item(tokens: &[TokenTree], at: usize, at_module: bool) -> Option<usize> {
    let TokenTree::Group(attribute) = tokens.get(at + 1)? else {
        return None;
    };
    let is_test = is_punct(tokens.get(at), '#')
        && attribute.delimiter() == Delimiter::Bracket
        && attribute.stream().to_string().replace(' ', "") == "cfg(test)";
    if !is_test {
        return None;
    }
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';' || (!at_module && punct.as_char() == ','),
        _ => false,
    };
    let length = tokens[at + 2..].iter().position(ends);
    Some(length.map_or(tokens.len(), |n| at + 2 + n + 1))
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

fn is_parenthesis(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis)
}
