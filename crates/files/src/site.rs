//! A static origin, compiled.

use crate::root::Root;
use model::ConfigError;
use model::resource::{Compress, Encoding, StaticFiles};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stdx::Folders;

/// A static origin, compiled: nothing left to parse per request.
#[derive(Debug, PartialEq)]
pub struct Site {
    /// Names this content: no two different sites of a process share it. 0 where nobody gave one; part of the key of
    /// cached files.
    pub uid: u64,
    pub(crate) root: Root,
    pub(crate) strip_prefix: Vec<u8>,
    pub(crate) index: Vec<PathBuf>,
    pub(crate) tries: Vec<Try>,
    pub(crate) last: Last,
    pub(crate) error_pages: HashMap<u16, Vec<u8>>,
    pub(crate) autoindex: bool,
    pub(crate) cache_control: Option<String>,
    pub(crate) types: HashMap<String, String>,
    pub(crate) default_type: String,
    pub(crate) hidden: bool,
    pub(crate) precompressed: Vec<Encoding>,
    pub(crate) compress: Compress,
    /// All encodings that a file may be had in, the most wanted first.
    pub(crate) offered: Vec<Encoding>,
    pub(crate) open_files_max: usize,
    pub(crate) inactive_ms: u64,
    pub(crate) valid_ms: u64,
}

/// A path to try: what stands around the request's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Try {
    /// A path of its own.
    Fixed(Vec<u8>),
    /// The request's path between these two.
    Around(Vec<u8>, Vec<u8>),
}

/// What becomes of a request for which nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is answered with this.
    Status(u16),
    /// It gets this path instead.
    Path(Vec<u8>),
}

impl Site {
    /// Compiles a static origin, whose root must be in `allowed`.
    ///
    /// # Errors
    /// Every mistake, with its path in the object.
    pub fn compile(written: &StaticFiles, allowed: &Folders) -> Result<Self, Vec<ConfigError>> {
        let mut mistakes = Mistakes::default();
        let root = Path::new(&written.root);
        if !root.is_absolute() {
            mistakes.add("/root", format!("{:?} is no absolute path", written.root));
        } else if !allowed.allow(root) {
            let message = "is below none of the folders of apisix.static_roots in config.yaml";
            mistakes.add("/root", format!("{:?} {message}", written.root));
        }
        if !(written.strip_prefix.is_empty() || written.strip_prefix.starts_with('/')) {
            mistakes.add("/strip_prefix", "must start with a slash");
        }
        let index = index(written, &mut mistakes);
        let (tries, last) = tries(&written.try_files).unwrap_or_else(|(at, message)| {
            mistakes.add(&format!("/try_files/{at}"), message);
            (Vec::new(), Last::Status(404))
        });
        let error_pages = error_pages(written, &mut mistakes);
        let cache_control = cache_control(written, &mut mistakes);
        mistakes.check_field("/default_type", &written.default_type);
        let cache = &written.open_file_cache;
        let inactive_ms = mistakes.milliseconds("/open_file_cache/inactive", cache.inactive);
        let valid_ms = mistakes.milliseconds("/open_file_cache/valid", cache.valid);
        mistakes.none()?;
        let mut offered = written.precompressed.clone();
        offered.extend(written.compress.encodings.iter().filter(|e| !written.precompressed.contains(e)));
        Ok(Self {
            uid: 0,
            root: Root::new(root.to_owned(), written.symlinks, allowed.clone()),
            strip_prefix: written.strip_prefix.trim_end_matches('/').as_bytes().to_vec(),
            index,
            tries,
            last,
            error_pages,
            autoindex: written.autoindex,
            cache_control,
            types: written.types.iter().map(|(ext, t)| (ext.to_ascii_lowercase(), t.clone())).collect(),
            default_type: written.default_type.clone(),
            hidden: written.hidden,
            precompressed: written.precompressed.clone(),
            compress: written.compress.clone(),
            offered,
            open_files_max: cache.max,
            inactive_ms,
            valid_ms,
        })
    }

    /// The folder whose files are served.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.root.folder()
    }

    /// The media type of a file by its name; text is said to be UTF-8 where the type comes from the built-in table.
    pub(crate) fn media_type(&self, path: &Path) -> String {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        if let Some(found) = self.types.get(&extension) {
            return found.clone();
        }
        match mime_guess::from_ext(&extension).first_raw() {
            Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8"),
            Some(other) => other.to_owned(),
            None => self.default_type.clone(),
        }
    }

    /// The level that files are compressed at, in the encoding's own numbers.
    pub(crate) fn level(&self, encoding: Encoding) -> i32 {
        match encoding {
            Encoding::Gzip => self.compress.gzip_level.cast_signed(),
            Encoding::Br => self.compress.brotli_level.cast_signed(),
            Encoding::Zstd => self.compress.zstd_level,
        }
    }
}

/// Mistakes, with their places in the object.
#[derive(Default)]
struct Mistakes(Vec<ConfigError>);

impl Mistakes {
    fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(ConfigError::new(path, message.into()));
    }

    /// What is to become a header field's value.
    fn check_field(&mut self, path: &str, value: &str) {
        if value.chars().any(char::is_control) {
            self.add(path, "has a control character");
        }
    }

    fn milliseconds(&mut self, path: &str, seconds: f64) -> u64 {
        let time = Duration::try_from_secs_f64(seconds).ok();
        time.and_then(|time| u64::try_from(time.as_millis()).ok()).unwrap_or_else(|| {
            self.add(path, format!("{seconds} is no time in seconds"));
            0
        })
    }

    fn none(self) -> Result<(), Vec<ConfigError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

fn index(written: &StaticFiles, mistakes: &mut Mistakes) -> Vec<PathBuf> {
    for (at, name) in written.index.iter().enumerate() {
        if name.is_empty() || name.contains('/') || name == ".." {
            mistakes.add(&format!("/index/{at}"), format!("{name:?} is no file name"));
        }
    }
    written.index.iter().map(PathBuf::from).collect()
}

fn error_pages(written: &StaticFiles, mistakes: &mut Mistakes) -> HashMap<u16, Vec<u8>> {
    let mut pages = HashMap::new();
    for (status, page) in &written.error_pages {
        match status.parse::<u16>() {
            Ok(code @ 400..=599) if page.starts_with('/') => {
                pages.insert(code, page.clone().into_bytes());
            }
            Ok(400..=599) => {
                mistakes.add(&format!("/error_pages/{status}"), "the page must start with a slash");
            }
            _ => mistakes.add("/error_pages", format!("{status:?} is no status from 400 to 599")),
        }
    }
    pages
}

/// The value of `Cache-Control`, written as it is or made of `expires`.
fn cache_control(written: &StaticFiles, mistakes: &mut Mistakes) -> Option<String> {
    if let Some(value) = &written.cache_control {
        mistakes.check_field("/cache_control", value);
        return Some(value.clone());
    }
    let age = written.expires.as_deref().map(expires).transpose();
    age.unwrap_or_else(|message| {
        mistakes.add("/expires", message);
        None
    })
    .flatten()
}

impl Try {
    fn parse(text: &str) -> Result<Self, String> {
        let fixed = match text.split_once("$uri") {
            Some((before, after)) if !after.contains('$') && !before.contains('$') => {
                return Ok(Self::Around(before.into(), after.into()));
            }
            Some(_) => return Err(format!("{text:?} has a variable other than one $uri")),
            None => text,
        };
        if !fixed.starts_with('/') || fixed.contains('$') {
            return Err(format!("{text:?} is neither a path nor made of $uri"));
        }
        Ok(Self::Fixed(fixed.into()))
    }

    /// The path to try for a request's.
    pub(crate) fn path(&self, request: &[u8]) -> Vec<u8> {
        match self {
            Self::Fixed(path) => path.clone(),
            Self::Around(before, after) => {
                let mut path = [before.as_slice(), request, after.as_slice()].concat();
                // `$uri/` of a path that has its slash already.
                if path.ends_with(b"//") {
                    path.pop();
                }
                path
            }
        }
    }
}

/// `try_files`: all but the last are tried, the last is what is done at the end. Mistakes come with their place.
fn tries(written: &[String]) -> Result<(Vec<Try>, Last), (usize, String)> {
    let own = || Try::Around(Vec::new(), Vec::new());
    let folder = || Try::Around(Vec::new(), b"/".to_vec());
    let Some((last, tried)) = written.split_last() else {
        return Ok((vec![own(), folder()], Last::Status(404)));
    };
    let mut tries = Vec::new();
    for (at, text) in tried.iter().enumerate() {
        tries.push(Try::parse(text).map_err(|message| (at, message))?);
    }
    let at = tried.len();
    let last = match last.strip_prefix('=') {
        Some(code) => match code.parse() {
            Ok(status @ 400..=599) => Last::Status(status),
            _ => return Err((at, format!("{code:?} is no status from 400 to 599"))),
        },
        None => match Try::parse(last).map_err(|message| (at, message))? {
            Try::Fixed(path) => Last::Path(path),
            // A list of patterns alone: what none of them finds is not there.
            pattern => {
                tries.push(pattern);
                Last::Status(404)
            }
        },
    };
    Ok((tries, last))
}

/// What nginx's `expires` makes of `Cache-Control`.
fn expires(text: &str) -> Result<Option<String>, String> {
    const TEN_YEARS_S: u64 = 315_360_000;
    let age = |seconds: u64| Ok(Some(format!("max-age={seconds}")));
    match text.trim() {
        "off" => Ok(None),
        "epoch" => Ok(Some("no-cache".to_owned())),
        "max" => age(TEN_YEARS_S),
        past if past.starts_with('-') => seconds(&past[1..]).map(|_| Some("no-cache".to_owned())),
        time => age(seconds(time)?),
    }
}

/// A time in nginx's notation, in whole seconds: `30d`, `1h 30m`, `90`.
fn seconds(text: &str) -> Result<u64, String> {
    let time = stdx::units::duration(text)?;
    match time.subsec_nanos() {
        0 => Ok(time.as_secs()),
        _ => Err(format!("expected a time in whole seconds, found {text:?}")),
    }
}

#[cfg(test)]
mod tests;
