//! Layers that this machine's kernel allows, tried out rather than asked: a layer is in force if a child under it
//! cannot do what the layer forbids.

use super::grants::{self, Machine};
use super::policy::Policy;
use nix::unistd::{Uid, User};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use verdict::plan::SandboxSetting;
use verdict::record::{Isolation, Layer};

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("`sandbox = \"{wanted}\"` in [host] cannot be had here: {why}")]
    Missing { wanted: String, why: String },
    #[error("`sandbox = \"user:{0}\"` in [host]: there is no user {0} on this machine")]
    UnknownUser(String),
    #[error(
        "`sandbox = \"user:{0}\"` in [host] needs a gate that runs as root, which can become {0}"
    )]
    NotRoot(String),
    #[error("cannot make a private folder for what is measured")]
    Folder(#[from] io::Error),
}

/// Where no layer is in force, what to do.
const REMEDY: &str = "use a kernel with Landlock (5.13 or newer, `landlock` among lsm=), or allow unprivileged user \
                      namespaces, or run the gate as root with `sandbox = \"user:NAME\"` in [host]";

/// The layers in force on this machine, and the grants of every child.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    isolation: Isolation,
    user: Option<String>,
    machine: Machine,
}

/// Rights of one child besides those that the machine grants to all. Paths are absolute.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Folders and files that are its own: it reads and writes them.
    pub own: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
    /// Folders of which it reads the names alone.
    pub list: Vec<PathBuf>,
}

impl Sandbox {
    /// Tries out what the project asks for. `tree` is its working tree, the folder with `.git` in it.
    ///
    /// # Errors
    /// A layer that is asked for by name cannot be had.
    pub fn choose(setting: &SandboxSetting, tree: &Path) -> Result<Self, SandboxError> {
        let machine = Machine::read(tree);
        let of = |layers: Vec<Layer>, note: Option<String>| Self {
            isolation: Isolation { layers, note },
            user: None,
            machine: machine.clone(),
        };
        let missing = |why: String| SandboxError::Missing {
            wanted: setting.to_string(),
            why,
        };
        let one = |layer| of(vec![layer], None);
        match setting {
            SandboxSetting::None => Ok(of(
                Vec::new(),
                Some("`sandbox = \"none\"` in [host]".into()),
            )),
            SandboxSetting::Landlock => one(Layer::Landlock).tried().map_err(missing),
            SandboxSetting::Namespaces => one(Layer::Namespaces).tried().map_err(missing),
            SandboxSetting::User(name) => {
                let chosen = of(vec![Layer::User], None).run_as(name)?;
                let with_landlock = Self {
                    isolation: Isolation {
                        layers: vec![Layer::User, Layer::Landlock],
                        note: None,
                    },
                    ..chosen.clone()
                };
                Ok(with_landlock.tried().unwrap_or(chosen))
            }
            SandboxSetting::Auto => {
                let mut layers = Vec::new();
                let mut whys = Vec::new();
                for (layer, name) in [
                    (Layer::Landlock, "Landlock"),
                    (Layer::Namespaces, "namespaces"),
                ] {
                    match one(layer).tried() {
                        Ok(_) => layers.push(layer),
                        Err(why) => whys.push(format!("no {name}: {why}")),
                    }
                }
                if layers.is_empty() {
                    whys.push(REMEDY.to_owned());
                }
                let note = (!whys.is_empty()).then(|| whys.join("; "));
                Ok(of(layers, note))
            }
        }
    }

    fn run_as(self, name: &str) -> Result<Self, SandboxError> {
        if !Uid::effective().is_root() {
            return Err(SandboxError::NotRoot(name.to_owned()));
        }
        match User::from_name(name) {
            Ok(Some(_)) => Ok(Self {
                user: Some(name.to_owned()),
                ..self
            }),
            _ => Err(SandboxError::UnknownUser(name.to_owned())),
        }
    }

    /// The layers, as the record holds them.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    pub fn is_in_force(&self) -> bool {
        !self.isolation.layers.is_empty()
    }

    /// True if children cannot change modes and times of files either, which Landlock alone does not stop.
    pub fn keeps_metadata(&self) -> bool {
        let has = |layer| self.isolation.layers.contains(&layer);
        has(Layer::User) || has(Layer::Namespaces)
    }

    /// The user that builds and engines run as, where it is another one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The home of that user.
    pub fn home(&self) -> Option<PathBuf> {
        let user = User::from_name(self.user()?);
        user.ok().flatten().map(|user| user.dir)
    }

    /// The rights of a child beside what the machine grants to all; `None` where nothing is in force.
    pub fn policy(&self, rights: Rights) -> Option<Policy> {
        if !self.is_in_force() {
            return None;
        }
        let Machine {
            read,
            devices,
            hidden,
        } = &self.machine;
        let Rights {
            mut own,
            read: mut also,
            list,
        } = rights;
        also = grants::without(&also, hidden);
        also.extend(read.iter().cloned());
        let holds_own = |path: &PathBuf| own.iter().any(|own| own.starts_with(path));
        let hidden = hidden
            .iter()
            .filter(|path| !holds_own(path))
            .cloned()
            .collect();
        own.extend(devices.iter().cloned());
        Some(Policy {
            layers: self.isolation.layers.clone(),
            user: self.user.clone(),
            read: also,
            write: own,
            list,
            hidden,
        })
    }

    /// A child under this sandbox that does what it may, and fails at what it may not.
    fn tried(self) -> Result<Self, String> {
        remove_left();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder = TempDir::with_prefix(prefix).map_err(|error| error.to_string())?;
        let open = Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).map_err(|error| error.to_string())?;
        let place = |name: &str| -> io::Result<PathBuf> {
            let path = folder.path().join(name);
            std::fs::create_dir(&path)?;
            path.canonicalize()
        };
        let (own, other) = place("own")
            .and_then(|own| Ok((own, place("other")?)))
            .map_err(|error| error.to_string())?;
        let policy = self.policy(Rights {
            own: vec![own.clone()],
            read: vec![other.clone()],
            ..Rights::default()
        });
        let policy = policy.unwrap_or_default();
        let script =
            "echo > \"$1/file\" || exit 3; echo 2> /dev/null > \"$2/file\" && exit 4; exit 0";
        let words = ["/bin/sh", "-c", script, "sh"].map(str::to_owned);
        let places = [own, other].map(|path| path.display().to_string());
        let command: Vec<String> = words.into_iter().chain(places).collect();
        if let Some(user) = &self.user {
            let _ = Command::new("chown")
                .arg(user)
                .arg(folder.path().join("own"))
                .status();
        }
        let words = policy.wrap(&command);
        let output = Command::new(&words[0])
            .args(&words[1..])
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => Ok(self),
            Some(3) => Err("a child could not write into its own folder".into()),
            Some(4) => Err("the kernel lets a child write where it must not".into()),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or("it ended without a word");
                Err(last
                    .trim_start_matches("error: ")
                    .chars()
                    .filter(|c| !c.is_control())
                    .collect())
            }
        }
    }
}

/// Absolute paths in a command line and its environment that are there: programs with their own files, models. What is
/// relative lies in a folder that is granted anyway, and may be a link of a pull request's.
pub fn named(words: &[String], env: &[(String, String)]) -> Vec<PathBuf> {
    let home = grants::home();
    let values = env.iter().map(|(_, value)| value);
    let parts = words.iter().chain(values);
    let parts = parts.flat_map(|word| word.split(['=', ':', ',']).chain([word.as_str()]));
    let mut found = Vec::new();
    for path in parts.map(PathBuf::from).filter(|path| path.is_absolute()) {
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        // No word grants the whole machine or the whole home.
        if real.parent().is_none() || Some(&real) == home.as_ref() {
            continue;
        }
        for path in [path, real] {
            let around = path.parent().filter(|_| path.is_file());
            found.extend(
                around
                    .map(|folder| grants::around_bin(folder, home.as_deref()))
                    .filter(|around| Some(around.as_path()) != path.parent()),
            );
            found.push(path);
        }
    }
    found
}
/// Begins the name of a probe's folder; the process that made it follows.
const PREFIX: &str = "infergate-probe-";

/// Removes folders of probes whose process was killed.
fn remove_left() {
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let maker = maker.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let is_gone = maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
        if is_gone && Path::new("/proc/self").exists() {
            // What cannot be removed harms nobody: its name is not used again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
