//! The host as the gateway sees it: settings in, plugins' definitions out.

use crate::code::Code;
use crate::dicts::SharedDicts;
use crate::settings::LuaSettings;
use crate::{module, route_filter, serverless};
use plugin::{CompileFilter, PluginDef};
use std::fmt;
use std::sync::Arc;

/// One generation of Lua code, ready to make definitions of it.
#[derive(Debug, Clone)]
pub struct Host {
    code: Arc<Code>,
    /// The plugins in the folder when the generation began.
    in_folder: Vec<String>,
}

/// A module that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The plugin.
    pub name: String,
    /// File, line and message.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the Lua plugin {} can't be loaded: {}", self.name, self.why)
    }
}

impl Host {
    /// A host of the code that the files hold now. It is the generation of `before` where nothing has changed since.
    #[must_use]
    pub fn new(settings: LuaSettings, before: Option<&Self>) -> Self {
        let dicts = before.map_or_else(Arc::<SharedDicts>::default, |before| Arc::clone(&before.code.dicts));
        let code = Code::new(settings, dicts);
        let in_folder = code.in_folder();
        match before {
            Some(before)
                if before.code.settings == code.settings
                    && before.in_folder == in_folder
                    && before.code.is_current() =>
            {
                before.clone()
            }
            _ => Self { code, in_folder },
        }
    }

    /// Whether there is a plugin called `name`, whether or not it can be loaded.
    #[must_use]
    pub fn has(&self, name: &str, stream: bool) -> bool {
        let own = !stream && serverless::NAMES.contains(&name);
        own || self.code.module(&module::name_of(name, stream)).is_ok_and(|found| found.is_some())
    }

    /// Whether both are the same generation of code.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
    }

    /// Whether the files are what the generation was loaded from.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.code.is_current() && self.code.in_folder() == self.in_folder
    }

    /// The definitions of requests' plugins: of those that `listed` names and a file has, and where there is no such list of
    /// those in the folder. The plugins for code in configurations are among them.
    ///
    /// # Errors
    /// The modules that can't be used.
    pub fn plugins(&self, listed: Option<&[String]>) -> Result<Vec<PluginDef>, Vec<Refused>> {
        let own = serverless::definitions(&self.code).into_iter();
        let is_listed =
            |def: &PluginDef| listed.is_none_or(|listed| listed.iter().any(|name| **name == *def.name));
        let mut all: Vec<_> = own.filter(is_listed).collect();
        let names = listed.unwrap_or(&self.in_folder);
        all.extend(self.load(names, false)?);
        Ok(all)
    }

    /// The definitions of streams' plugins, likewise.
    ///
    /// # Errors
    /// As [`Self::plugins`].
    pub fn stream_plugins(&self, listed: Option<&[String]>) -> Result<Vec<PluginDef>, Vec<Refused>> {
        self.load(listed.unwrap_or_default(), true)
    }

    /// What compiles the `filter_func` of routes.
    #[must_use]
    pub fn filters(&self) -> Box<CompileFilter> {
        let code = Arc::clone(&self.code);
        Box::new(move |function| route_filter::compile(&code, function))
    }

    fn load(&self, names: &[String], stream: bool) -> Result<Vec<PluginDef>, Vec<Refused>> {
        let (mut made, mut refused) = (Vec::new(), Vec::new());
        for name in names {
            match module::definition(&self.code, name, stream) {
                Ok(def) => made.extend(def),
                Err(why) => refused.push(Refused { name: name.clone(), why }),
            }
        }
        if refused.is_empty() { Ok(made) } else { Err(refused) }
    }
}
