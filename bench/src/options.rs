//! The command line that the benches share.

use crate::Failure;

/// What a bench was asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Tiny, without peers that are not Rust: checks that everything works, measures nothing of worth.
    pub is_smoke: bool,
    /// Whether the peers that are not Rust are run.
    pub has_peers: bool,
    /// The engines of this binary that are run; all without it.
    only: Option<Vec<String>>,
    /// This process is the child for that engine.
    pub engine: Option<String>,
    /// What the parent hands to the child, in the order given: `--set key=value`.
    settings: Vec<(String, String)>,
}

impl Options {
    /// Reads `--smoke`, `--no-peers`, `--only NAME,NAME`, `--engine NAME` and `--set key=value`.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Options, Failure> {
        let mut options = Options { has_peers: true, ..Options::default() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument}: a value is missing"));
            match &*argument {
                "--smoke" => (options.is_smoke, options.has_peers) = (true, false),
                "--no-peers" => options.has_peers = false,
                "--only" => {
                    options.only = Some(value()?.split(',').map(str::to_owned).collect());
                    options.has_peers = false;
                }
                "--engine" => options.engine = Some(value()?),
                "--set" => {
                    let value = value()?;
                    let setting = value.split_once('=').ok_or("--set takes key=value")?;
                    options.settings.push((setting.0.to_owned(), setting.1.to_owned()));
                }
                _ => {
                    return Err(format!(
                        "{argument}: unknown; there are --smoke, --no-peers, --only"
                    )
                    .into());
                }
            }
        }
        Ok(options)
    }

    /// Whether the engine of that name is to be run.
    pub fn wants(&self, engine: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == engine))
    }

    /// A setting of the child.
    pub fn setting(&self, key: &str) -> Result<&str, Failure> {
        let found = self.settings.iter().rev().find(|(known, _)| known == key);
        found.map(|(_, value)| &**value).ok_or_else(|| format!("--set {key}=… is missing").into())
    }

    /// A setting of the child that is a number.
    pub fn count(&self, key: &str) -> Result<usize, Failure> {
        let text = self.setting(key)?;
        text.parse().map_err(|error| format!("--set {key}={text}: {error}").into())
    }
}
