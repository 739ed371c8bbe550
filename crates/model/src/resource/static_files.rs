//! `static` of a route or service: files of a folder are the origin. Ours; APISIX has nothing like it, nginx has.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A folder whose files answer requests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StaticFiles {
    /// The folder, as an absolute path. The request's path is looked up below it.
    pub root: String,
    /// A prefix that the request's path loses first (nginx's `alias`); empty for none.
    #[serde(default)]
    pub strip_prefix: String,
    /// What stands for a folder, the first that exists.
    #[serde(default = "index")]
    pub index: Vec<String>,
    /// What is tried for a path, in this order: `$uri`, `$uri/`, `$uri.html`, and last a path that is served instead
    /// (`/index.html`) or a status (`=404`). Empty: `$uri`, `$uri/`, `=404`.
    #[serde(default)]
    pub try_files: Vec<String>,
    /// Pages for statuses: `{"404": "/404.html"}`. The status stays.
    #[serde(default)]
    pub error_pages: BTreeMap<String, String>,
    /// Whether a folder without an index is listed.
    #[serde(default)]
    pub autoindex: bool,
    /// How long clients may keep a file: nginx's `expires` (`30d`, `epoch`, `max`, `off`).
    pub expires: Option<String>,
    /// The value of `Cache-Control`, instead of what `expires` gives.
    pub cache_control: Option<String>,
    /// Types by extension, before the built-in ones: `{"wasm": "application/wasm"}`.
    #[serde(default)]
    pub types: BTreeMap<String, String>,
    /// The type of what no table knows.
    #[serde(default = "default_type")]
    pub default_type: String,
    /// Whether files and folders with a leading dot are served.
    #[serde(default)]
    pub hidden: bool,
    /// Which symbolic links are followed.
    #[serde(default)]
    pub symlinks: Symlinks,
    /// Which encodings are looked for beside a file (`app.js.br`), the most wanted first where a client takes several
    /// alike.
    #[serde(default = "all_encodings")]
    pub precompressed: Vec<Encoding>,
    /// What is compressed here; nothing by default.
    #[serde(default)]
    pub compress: Compress,
    /// How long open files are trusted, and how many are kept.
    #[serde(default)]
    pub open_file_cache: OpenFileCache,
}

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Symlinks {
    /// Those that stay below the root.
    #[default]
    Within,
    /// None.
    Deny,
    /// All, as nginx does.
    Follow,
}

/// A content coding (RFC 9110 section 8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Brotli, RFC 7932.
    Br,
    /// Zstandard, RFC 8878.
    Zstd,
    /// Gzip, RFC 1952.
    Gzip,
}

/// What is compressed on the way out; once per file and encoding, not per request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Compress {
    /// In which encodings, the most wanted first where a client takes several alike. Empty: none.
    pub encodings: Vec<Encoding>,
    /// Of which types; `*` for all. `text/html` always belongs to them, as in nginx.
    pub types: Vec<String>,
    /// Bytes below which a file is left as it is: nginx's `gzip_min_length`.
    pub min_length: u64,
    /// gzip's level, 1 to 9. A file is compressed once, so that the default is a thorough one.
    pub gzip_level: u32,
    /// Brotli's quality, 0 to 11.
    pub brotli_level: u32,
    /// Zstandard's level, 1 to 19.
    pub zstd_level: i32,
    /// Whether `Vary: Accept-Encoding` is sent: nginx's `gzip_vary`. Precompressed files always have it.
    pub vary: bool,
}

/// The cache of open files: nginx's `open_file_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default)]
pub struct OpenFileCache {
    /// Files kept open per worker.
    pub max: usize,
    /// Seconds after which an unused one is closed.
    pub inactive: f64,
    /// Seconds for which what is known of a file is trusted.
    pub valid: f64,
}

impl Encoding {
    /// The token of `Content-Encoding` and `Accept-Encoding`.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// What a precompressed file's name ends in.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Br => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

impl Default for Compress {
    fn default() -> Self {
        Self {
            encodings: Vec::new(),
            types: [
                "text/html",
                "text/plain",
                "text/css",
                "text/xml",
                "text/javascript",
                "application/javascript",
                "application/json",
                "application/xml",
                "application/wasm",
                "image/svg+xml",
            ]
            .map(str::to_owned)
            .to_vec(),
            min_length: 256,
            gzip_level: 6,
            brotli_level: 5,
            zstd_level: 7,
            vary: true,
        }
    }
}

impl Default for OpenFileCache {
    fn default() -> Self {
        Self { max: 10_000, inactive: 60.0, valid: 2.0 }
    }
}

fn index() -> Vec<String> {
    vec!["index.html".to_owned()]
}

fn default_type() -> String {
    "application/octet-stream".to_owned()
}

fn all_encodings() -> Vec<Encoding> {
    vec![Encoding::Br, Encoding::Zstd, Encoding::Gzip]
}
