//! How this run was asked for: everything that a reload has to apply again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::cli::{CommonArgs, StartArgs};
use crate::given::Given;
use crate::serve::args::ServeArgs;
use crate::{quickstart, serve};
use config::{BuiltIn, Context as Reading, Loaded, Reach};
use document::Report;

/// The form of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `tidegate start`.
    Normal,
    /// `tidegate quickstart`: loopback alone, with the Admin API on the data ports.
    Quickstart,
}

/// The command line of a start, resolved.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The form of the start.
    pub mode: Mode,
    /// The file to read; `None` for the defaults.
    pub config: Option<PathBuf>,
    /// The data directory, absolute.
    pub data_dir: PathBuf,
    /// `--worker-processes`.
    pub workers: Option<usize>,
    /// Whether this process is the child of `--daemon`.
    pub detached: bool,
    /// The configuration, where the command line gives all of it.
    pub given: Option<Arc<Given>>,
    /// The command line that gives it.
    pub serve: Option<Arc<ServeArgs>>,
}

impl Launch {
    /// Resolves the command line. Fails where the current directory is gone.
    pub fn new(mode: Mode, args: &StartArgs) -> anyhow::Result<Self> {
        Ok(Self {
            mode,
            config: config_file(&args.common),
            data_dir: data_dir(&args.common)?,
            workers: args.worker_processes.map(usize::from),
            detached: args.detached,
            given: None,
            serve: None,
        })
    }

    /// The start that `tidegate test` is asked about.
    ///
    /// # Errors
    /// Where the current directory is gone.
    pub fn of_test(args: &CommonArgs) -> anyhow::Result<Self> {
        let (config, data_dir) = (config_file(args), data_dir(args)?);
        let (mode, workers, detached) = (Mode::Normal, None, false);
        Ok(Self { mode, config, data_dir, workers, detached, given: None, serve: None })
    }

    /// A start with the configuration that the command line gives.
    ///
    /// # Errors
    /// Where a file that it names can't be used.
    pub fn serve(args: Arc<ServeArgs>, data_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            mode: Mode::Normal,
            config: None,
            data_dir: data_dir.to_owned(),
            workers: None,
            detached: false,
            given: Some(Arc::new(serve::given(&args)?)),
            serve: Some(args),
        })
    }

    /// The same start with what its files say now.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub fn again(&self) -> anyhow::Result<Self> {
        match &self.serve {
            Some(args) => Self::serve(Arc::clone(args), &self.data_dir),
            None => Ok(self.clone()),
        }
    }

    /// Reads the settings: the file, then what the command line and the mode change. A reload calls this again.
    pub fn settings(&self) -> Result<Loaded, Report> {
        if let Some(given) = &self.given {
            return given.settings();
        }
        let reach = match self.mode {
            Mode::Normal => Reach::Anyone,
            Mode::Quickstart => Reach::ThisMachine,
        };
        let mut loaded = load(self.config.as_deref(), reach)?;
        if let Some(workers) = self.workers {
            loaded.settings.process.workers = Some(workers);
        }
        if self.mode == Mode::Quickstart {
            quickstart::apply(&mut loaded.settings);
        }
        Ok(loaded)
    }

    /// A path of the configuration: relative ones are below the data directory.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.data_dir.join(path)
    }
}

/// The file that is named, or the default one where it exists.
pub fn config_file(args: &CommonArgs) -> Option<PathBuf> {
    args.config.clone().or_else(|| Some(PathBuf::from(config::DEFAULT_PATH)).filter(|path| path.exists()))
}

/// The data directory as an absolute path.
pub fn data_dir(args: &CommonArgs) -> anyhow::Result<PathBuf> {
    std::path::absolute(&args.data_dir)
        .with_context(|| format!("the data directory {} can't be resolved", args.data_dir.display()))
}

/// Whether a module in Lua is called `name`. Where a relative folder of plugins is, is not known when a file is checked.
fn is_in_lua(settings: &config::settings::Lua, name: &str, stream: bool) -> bool {
    let folder = settings.plugins_dir.clone();
    let relative = folder.as_ref().is_some_and(|folder| folder.is_relative());
    let settings = lua::LuaSettings { path: settings.path.clone(), folder, ..lua::LuaSettings::default() };
    (relative && !stream) || lua::Host::new(settings, None).has(name, stream)
}

/// Reads a file with the variables of this process and the plugins of this binary.
///
/// # Errors
/// Every mistake of the file.
pub fn load(config: Option<&Path>, reach: Reach) -> Result<Loaded, Report> {
    let names = |all: &[plugin::PluginDef]| all.iter().map(|def| def.name.to_string()).collect::<Vec<_>>();
    let (plugins, stream_plugins) = (names(&plugins::all()), names(&plugins::stream()));
    let built_in = BuiltIn { plugins: &plugins, stream_plugins: &stream_plugins, in_lua: is_in_lua };
    let variables = |name: &str| std::env::var(name).ok();
    config::load(config, &Reading { reach, built_in, ..Reading::new(&variables) })
}
