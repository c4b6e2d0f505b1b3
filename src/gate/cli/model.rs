//! Flags that say which model is computed, and by what: `gate serve` and `gate roofline` share them.
//!
//! Main type: [`ModelArgs`]. Refuses to know: what the model is used for.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use engine::{BackendChoice, ModelSource, Options, Synthetic};
use std::env;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct ModelArgs {
    /// Hugging Face model directory; without it, the small model inside this binary
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Random weights of a published model's shape, to measure speed: answers mean nothing
    #[arg(long, value_name = "MODEL", value_parser = synthetic(), conflicts_with = "model")]
    synthetic: Option<Synthetic>,
    /// What computes: auto takes a GPU where there is one with all that it needs, else the CPU
    #[arg(long, value_name = "NAME", env = backend_variable(), value_enum,
        default_value_t = BackendArg::Auto)]
    backend: BackendArg,
    /// Worker threads of the CPU backend; 0 takes every core
    #[arg(long, default_value_t = Options::default().threads, value_name = "N")]
    pub threads: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum BackendArg {
    Auto,
    Cpu,
    Cuda,
}

impl ModelArgs {
    /// The engine's usual options with what these flags say.
    pub fn options(&self) -> Options {
        Options {
            model: match (&self.model, self.synthetic) {
                (Some(directory), _) => ModelSource::Directory(directory.clone()),
                (None, Some(model)) => ModelSource::Synthetic(model),
                (None, None) => ModelSource::Embedded,
            },
            backend: match self.backend {
                BackendArg::Auto => BackendChoice::Auto,
                BackendArg::Cpu => BackendChoice::Cpu,
                BackendArg::Cuda => BackendChoice::Cuda,
            },
            threads: self.threads,
            ..Options::default()
        }
    }
}

/// The variable that stands for `--backend`. Empty it is as good as unset, as for every other variable;
/// clap would take it for a wrong value.
fn backend_variable() -> Option<&'static str> {
    const NAME: &str = "INFERGATE_BACKEND";
    let is_empty = env::var_os(NAME).is_some_and(|value| value.is_empty());
    (!is_empty).then_some(NAME)
}

/// The published shapes by name.
fn synthetic() -> impl TypedValueParser<Value = Synthetic> {
    let names = Synthetic::ALL.map(Synthetic::name);
    PossibleValuesParser::new(names).try_map(|name| {
        let named = |model: &Synthetic| model.name() == name;
        Synthetic::ALL
            .into_iter()
            .find(named)
            .ok_or("no such shape")
    })
}
