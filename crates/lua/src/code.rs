//! One generation of code: what all VMs that run it load, so that a reload changes all of it at once.

use crate::dicts::SharedDicts;
use crate::settings::LuaSettings;
use plugin::UpstreamCompiler;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stdx::file;

/// Bytes of one module's source: a hundred times the longest of APISIX's plugins.
pub(crate) const SOURCE_BYTES_MAX: usize = 4 << 20;

/// A generation of code. Each module is read once: a file that changes later is seen by the next generation.
#[derive(Debug)]
pub struct Code {
    /// Tells generations apart in the life of the process.
    pub(crate) serial: u64,
    pub(crate) settings: LuaSettings,
    /// The data that VMs share; outlives generations.
    pub(crate) dicts: Arc<SharedDicts>,
    /// By name of the module; `None` for one that no file has.
    modules: Mutex<HashMap<String, Option<Arc<Source>>>>,
    /// Compiles the servers that code names.
    upstreams: OnceLock<UpstreamCompiler>,
}

/// The source of a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The file, for messages.
    pub(crate) path: PathBuf,
    pub(crate) text: Vec<u8>,
}

impl Code {
    /// A generation in which no file has been read yet.
    #[must_use]
    pub fn new(settings: LuaSettings, dicts: Arc<SharedDicts>) -> Arc<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { serial, settings, dicts, modules: Mutex::default(), upstreams: OnceLock::new() })
    }

    /// Takes what compiles upstreams, from whoever is the first to have it.
    pub(crate) fn learn(&self, upstreams: &UpstreamCompiler) {
        self.upstreams.get_or_init(|| upstreams.clone());
    }

    /// What compiles upstreams; `None` before any configuration was compiled.
    pub(crate) fn upstreams(&self) -> Option<UpstreamCompiler> {
        self.upstreams.get().cloned()
    }

    /// The module called `name`; `None` where no file has it.
    ///
    /// # Errors
    /// A file that is there and can't be read.
    pub(crate) fn module(&self, name: &str) -> Result<Option<Arc<Source>>, String> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = modules.get(name) {
            return Ok(known.clone());
        }
        let found = self.read(name)?.map(Arc::new);
        modules.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Option<Source>, String> {
        for path in self.candidates(name) {
            if path.is_file() {
                let text = file::read(&path, SOURCE_BYTES_MAX as u64)
                    .map_err(|error| format!("{} can't be read: {error}", path.display()))?;
                return Ok(Some(Source { path, text }));
            }
        }
        Ok(None)
    }

    /// The files that a module may be in, the first one first.
    fn candidates(&self, name: &str) -> Vec<PathBuf> {
        // A name with a separator would leave the folders.
        let valid = |part: &str| !part.is_empty() && !part.contains(['/', '\\', '\0']);
        if !name.split('.').all(valid) {
            return Vec::new();
        }
        let mut all = Vec::new();
        if let (Some(folder), Some(plugin)) = (&self.settings.folder, plugin_of(name)) {
            all.push(folder.join(format!("{plugin}.lua")));
        }
        let slashed = name.replace('.', "/");
        all.extend(self.settings.path.iter().map(|pattern| PathBuf::from(pattern.replace('?', &slashed))));
        all
    }

    /// The names of the plugins in the folder, sorted.
    pub(crate) fn in_folder(&self) -> Vec<String> {
        let Some(folder) = &self.settings.folder else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let name = |path: PathBuf| plugin_file(&path).map(str::to_owned);
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
        names.sort();
        names
    }

    /// Whether the files that were read are what they were, and those that were not there still aren't.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.iter().all(|(name, known)| {
            let now = self.read(name);
            now.is_ok_and(|now| now.as_ref() == known.as_deref())
        })
    }
}

/// The plugin that the module called `module` is.
fn plugin_of(module: &str) -> Option<&str> {
    module.strip_prefix("apisix.plugins.").filter(|name| !name.contains('.'))
}

fn plugin_file(path: &Path) -> Option<&str> {
    let is_lua = path.extension().is_some_and(|extension| extension == "lua") && path.is_file();
    path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_lua && !stem.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_from_the_folder_and_the_path_and_from_nowhere_else() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("lib/apisix/plugins")).expect("a folder");
        std::fs::create_dir_all(at("plugins")).expect("a folder");
        for (path, text) in [
            ("lib/apisix/plugins/a.lua", "library"),
            ("lib/apisix/plugins/b.lua", "b"),
            ("lib/mine.lua", "mine"),
            ("plugins/a.lua", "folder"),
            ("plugins/notes.txt", ""),
            ("secret.lua", "secret"),
        ] {
            std::fs::write(at(path), text).expect("written");
        }
        let settings = LuaSettings {
            path: vec![format!("{}/?.lua", at("lib").display())],
            folder: Some(at("plugins")),
            ..LuaSettings::default()
        };
        let code = Code::new(settings, Arc::default());
        let text = |name: &str| {
            let found = code.module(name).expect("readable");
            found.map(|source| String::from_utf8_lossy(&source.text).into_owned())
        };
        for (name, expected) in [
            ("apisix.plugins.a", Some("folder")),
            ("apisix.plugins.b", Some("b")),
            ("mine", Some("mine")),
            ("none", None),
            ("../secret", None),
            ("..secret", None),
            ("a/../../secret", None),
        ] {
            assert_eq!(text(name).as_deref(), expected, "{name}");
        }
        assert_eq!(code.in_folder(), ["a"]);
        assert!(code.is_current());
        std::fs::write(at("none.lua"), "not on the path").expect("written");
        assert!(code.is_current());
        std::fs::write(at("lib/mine.lua"), "changed").expect("written");
        assert!(!code.is_current());
        assert_eq!(text("mine").as_deref(), Some("mine"), "the generation keeps what it read");
    }
}
