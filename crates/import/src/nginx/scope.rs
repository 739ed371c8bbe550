//! Settings that `http`, `server` and `location` hand down: an inner one replaces the outer.

use super::Out;
use super::access::Access;
use super::tree::Directive;
use super::units;
use crate::Verdict;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What holds at one place of the configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) root: Option<String>,
    pub(super) alias: Option<String>,
    /// Members of the route's `static` object.
    pub(super) files: Map<String, Value>,
    pub(super) error_pages: Map<String, Value>,
    gzip: bool,
    /// Members of `static.compress`.
    compress: Map<String, Value>,
    /// Members of the route's `timeout`.
    pub(super) timeout: Map<String, Value>,
    /// Fields that the upstream is to see.
    pub(super) set_headers: Vec<(String, String)>,
    /// Who may ask.
    pub(super) access: Access,
    /// Refused directives without which an answer could be one that nobody is to have.
    barriers: BTreeSet<String>,
}

/// The end of a `try_files` that can't be translated.
const NOT_TRANSLATED: &str = "=501";

/// Directives that decide whether a request is answered, or by what, besides those of [`authenticates`]. Where one is
/// refused, nothing is answered in its place: neither the files that it would protect or run, nor what another location
/// makes of the request.
const DECIDING: &[&str] = &[
    "dav_methods",
    "empty_gif",
    "fastcgi_pass",
    "grpc_pass",
    "js_access",
    "js_content",
    "memcached_pass",
    "perl",
    "random_index",
    "satisfy",
    "scgi_pass",
    "secure_link",
    "stub_status",
    "uwsgi_pass",
];

fn decides(name: &str) -> bool {
    let lua = ["access_by_lua", "content_by_lua", "rewrite_by_lua", "server_rewrite_by_lua"];
    authenticates(name) || DECIDING.contains(&name) || lua.iter().any(|begin| name.starts_with(begin))
}

fn authenticates(name: &str) -> bool {
    matches!(name, "auth_basic" | "auth_digest" | "auth_jwt" | "auth_request")
}

impl Scope {
    /// What holds in `block` before it says anything itself. Lists are handed down whole or not at all: an inner one takes
    /// the place of the outer.
    pub(super) fn inherited(&self, block: &Directive) -> Self {
        let mut scope = self.clone();
        let states = |names: &[&str]| block.block().iter().any(|inner| names.contains(&inner.name.as_str()));
        if states(&["allow", "deny"]) {
            scope.access = Access::default();
        }
        if states(&["proxy_set_header"]) {
            scope.set_headers.clear();
        }
        if states(&["error_page"]) {
            scope.error_pages.clear();
        }
        scope
    }

    /// Takes a directive that belongs to a scope; `false` for any other.
    pub(super) fn take(&mut self, out: &mut Out, directive: &Directive) -> bool {
        self.access(out, directive)
            || self.files(out, directive)
            || self.compression(out, directive)
            || self.proxying(out, directive)
            || harmless(out, directive)
    }

    /// Keeps in mind that a directive which decides about answers was refused.
    pub(super) fn bar(&mut self, directive: &Directive) {
        self.barriers.insert(directive.name.clone());
    }

    /// Whether nothing may be answered here.
    pub(super) fn is_barred(&self) -> bool {
        !self.barriers.is_empty()
    }

    fn access(&mut self, out: &mut Out, directive: &Directive) -> bool {
        match directive.name.as_str() {
            "allow" | "deny" => {
                self.access.add(directive);
                out.taken(directive, "plugins");
            }
            name if authenticates(name) && directive.arg(0) == "off" => {
                self.barriers.remove(name);
                out.note(directive, Verdict::Equivalent, "");
            }
            name if decides(name) => {
                self.bar(directive);
                out.refuse(
                    directive,
                    format!("`{name}` has no counterpart: where it holds, 501 is answered"),
                );
            }
            _ => return false,
        }
        true
    }

    fn files(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let first = directive.arg(0);
        match directive.name.as_str() {
            "root" | "alias" if first.contains('$') => {
                self.bar(directive);
                out.refuse(directive, "a folder without variables: its files are answered 501");
                return true;
            }
            "root" => self.root = Some(out.absolute(first)),
            "alias" => self.alias = Some(out.absolute(first)),
            "index" => return self.index(out, directive),
            "try_files" => return self.try_files(out, directive),
            "autoindex" => {
                self.files.insert("autoindex".into(), json!(first == "on"));
            }
            "expires" => {
                let time = directive.args.join(" ");
                let bare = time.trim_start_matches('-');
                if !matches!(time.as_str(), "off" | "epoch" | "max") && units::seconds(bare).is_none() {
                    out.refuse(directive, "only a time after the request, epoch, max or off");
                    return true;
                }
                self.files.insert("expires".into(), json!(time));
            }
            "default_type" => {
                self.files.insert("default_type".into(), json!(first));
            }
            "error_page" => return self.error_page(out, directive),
            "types" => {
                let mut types = Map::new();
                for line in directive.block() {
                    types.extend(line.args.iter().map(|extension| (extension.clone(), json!(line.name))));
                }
                self.files.insert("types".into(), Value::Object(types));
            }
            "open_file_cache" | "open_file_cache_valid" => return self.open_file_cache(out, directive),
            "disable_symlinks" => {
                let policy = if first == "off" { "follow" } else { "deny" };
                self.files.insert("symlinks".into(), json!(policy));
            }
            "add_header" if first.eq_ignore_ascii_case("cache-control") => {
                self.files.insert("cache_control".into(), json!(directive.arg(1)));
            }
            _ => return false,
        }
        out.taken(directive, "");
        true
    }

    fn error_page(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let Some((page, statuses)) = directive.args.split_last() else {
            out.refuse(directive, "names no page");
            return true;
        };
        let changed = statuses.iter().any(|status| status.starts_with('='));
        if changed || !page.starts_with('/') || page.contains('$') {
            out.refuse(directive, "only pages of the same server, without a change of the status");
            return true;
        }
        if !statuses.iter().all(|status| status.parse().is_ok_and(|code: u16| (400..600).contains(&code))) {
            out.refuse(directive, "only statuses from 400 to 599");
            return true;
        }
        for status in statuses {
            self.error_pages.insert(status.clone(), json!(page));
        }
        out.taken(directive, "static.error_pages, for files");
        true
    }

    fn index(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let is_name = |name: &&String| !name.is_empty() && !name.contains(['/', '$']);
        let names: Vec<_> = directive.args.iter().filter(is_name).collect();
        if names.len() < directive.args.len() {
            out.refuse(directive, "an index is a file's name: the others are left out");
        } else {
            out.taken(directive, "");
        }
        self.files.insert("index".into(), json!(names));
        true
    }

    /// What can't be looked for is left out; in the place of an end that isn't files comes 501.
    fn try_files(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let is_tried = |path: &str| match path.split_once("$uri") {
            Some((before, after)) => !before.contains('$') && !after.contains('$'),
            None => path.starts_with('/') && !path.contains('$'),
        };
        let Some((last, tried)) = directive.args.split_last() else {
            out.refuse(directive, "names nothing");
            return true;
        };
        let mut all: Vec<_> = tried.iter().filter(|path| is_tried(path)).cloned().collect();
        let code = last.strip_prefix('=').map(str::parse::<u16>);
        let ends = match code {
            Some(code) => code.is_ok_and(|code| (400..600).contains(&code)),
            None => is_tried(last) && !last.contains('?'),
        };
        let complete = ends && all.len() == tried.len();
        all.push(if ends { last.clone() } else { NOT_TRANSLATED.to_owned() });
        self.files.insert("try_files".into(), json!(all));
        if complete {
            out.taken(directive, "");
        } else {
            out.refuse(
                directive,
                "only paths with $uri, a page or a status: what else is not found is answered 501",
            );
        }
        true
    }

    fn open_file_cache(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let cache = self.files.entry("open_file_cache").or_insert_with(|| json!({}));
        for arg in &directive.args {
            let (key, value) = match arg.split_once('=') {
                Some(("max", number)) => ("max", number.parse::<u64>().ok().map(Value::from)),
                Some(("inactive", time)) => ("inactive", units::seconds(time).map(units::number)),
                None if arg == "off" => ("max", Some(json!(0))),
                None => ("valid", units::seconds(arg).map(units::number)),
                Some(_) => ("", None),
            };
            match value {
                Some(value) => cache[key] = value,
                None => {
                    out.refuse(directive, format!("{arg} is not understood"));
                    return true;
                }
            }
        }
        out.taken(directive, "static.open_file_cache");
        true
    }

    fn compression(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let first = directive.arg(0);
        let number = || first.parse::<u64>().map_or(Value::Null, Value::from);
        match directive.name.as_str() {
            "gzip_min_length" | "gzip_comp_level" if number().is_null() => {
                out.refuse(directive, "not a number");
                return true;
            }
            "gzip" => self.gzip = units::switch(first).unwrap_or_default(),
            "gzip_min_length" => {
                self.compress.insert("min_length".into(), number());
            }
            "gzip_comp_level" => {
                self.compress.insert("gzip_level".into(), number());
            }
            "gzip_types" => {
                self.compress.insert("types".into(), json!(directive.args));
            }
            "gzip_vary" => {
                self.compress.insert("vary".into(), json!(first == "on"));
            }
            "gzip_static" | "brotli_static" => {
                let encoding = if directive.name == "gzip_static" { "gzip" } else { "br" };
                let list = self.files.entry("precompressed").or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.retain(|known| known != encoding);
                    if first != "off" {
                        list.push(json!(encoding));
                    }
                }
            }
            "gzip_buffers" | "gzip_window" | "gzip_hash" | "gzip_no_buffer" | "postpone_gzipping" => {
                out.note(directive, Verdict::Equivalent, "files are compressed once, as a whole");
                return true;
            }
            "gzip_http_version" | "gzip_disable" | "gzip_proxied" => {
                out.note(directive, Verdict::Ignored, "clients that ask for an encoding get it");
                return true;
            }
            _ => return false,
        }
        out.taken(directive, "");
        true
    }

    fn proxying(&mut self, out: &mut Out, directive: &Directive) -> bool {
        let first = directive.arg(0);
        match directive.name.as_str() {
            "proxy_connect_timeout" | "proxy_send_timeout" | "proxy_read_timeout" => {
                let key = directive.name.trim_start_matches("proxy_").trim_end_matches("_timeout");
                match units::seconds(first).filter(|time| *time > 0.0) {
                    Some(time) => {
                        self.timeout.insert(key.to_owned(), units::number(time));
                        out.taken(directive, "timeout");
                    }
                    None => out.refuse(directive, "not a time above 0"),
                }
            }
            "proxy_set_header" => {
                self.set_headers.retain(|(name, _)| !name.eq_ignore_ascii_case(first));
                self.set_headers.push((first.to_owned(), directive.arg(1).to_owned()));
                out.taken(directive, "");
            }
            "proxy_http_version" => {
                out.note(directive, Verdict::Equivalent, "nodes are spoken to in HTTP/1.1");
            }
            "proxy_buffering"
            | "proxy_buffers"
            | "proxy_buffer_size"
            | "proxy_busy_buffers_size"
            | "proxy_request_buffering"
            | "proxy_max_temp_file_size"
            | "proxy_temp_path" => {
                out.note(directive, Verdict::Equivalent, "bodies are streamed, with back-pressure");
            }
            "proxy_redirect" if first == "off" => out.note(directive, Verdict::Equivalent, ""),
            "proxy_pass_request_headers" | "proxy_pass_request_body" if first == "on" => {
                out.note(directive, Verdict::Equivalent, "");
            }
            _ => return false,
        }
        true
    }

    /// The `static` object of a route that serves files; `None` where no root is set.
    pub(super) fn static_files(&self) -> Option<Map<String, Value>> {
        let mut files = self.files.clone();
        files.insert("root".into(), json!(self.alias.as_ref().or(self.root.as_ref())?));
        files.entry("precompressed").or_insert_with(|| json!([]));
        if !self.error_pages.is_empty() {
            files.insert("error_pages".into(), Value::Object(self.error_pages.clone()));
        }
        if self.gzip {
            let mut compress = self.compress.clone();
            compress.insert("encodings".into(), json!(["gzip"]));
            // nginx's own defaults, where the configuration says nothing.
            compress.entry("types").or_insert_with(|| json!(["text/html"]));
            compress.entry("min_length").or_insert_with(|| json!(20));
            compress.entry("vary").or_insert_with(|| json!(false));
            files.insert("compress".into(), Value::Object(compress));
        }
        Some(files)
    }
}

/// Settings that make no difference here, wherever they stand.
fn harmless(out: &mut Out, directive: &Directive) -> bool {
    let reason = match directive.name.as_str() {
        "sendfile" | "tcp_nopush" | "tcp_nodelay" | "aio" | "directio" | "output_buffers"
        | "sendfile_max_chunk" => "done where it pays",
        "open_file_cache_min_uses" | "open_file_cache_errors" => "files are kept from their first use",
        "types_hash_max_size"
        | "types_hash_bucket_size"
        | "server_names_hash_max_size"
        | "server_names_hash_bucket_size"
        | "variables_hash_max_size"
        | "variables_hash_bucket_size"
        | "map_hash_max_size"
        | "map_hash_bucket_size"
        | "proxy_headers_hash_max_size"
        | "proxy_headers_hash_bucket_size" => "tables grow as they need",
        "include" => "what the file holds follows",
        "client_header_buffer_size"
        | "large_client_header_buffers"
        | "client_body_buffer_size"
        | "client_body_temp_path"
        | "connection_pool_size"
        | "request_pool_size"
        | "reset_timedout_connection"
        | "lingering_close"
        | "lingering_time"
        | "lingering_timeout"
        | "log_not_found"
        | "log_subrequest"
        | "etag"
        | "absolute_redirect"
        | "port_in_redirect"
        | "server_name_in_redirect"
        | "merge_slashes"
        | "charset"
        | "if_modified_since"
        | "max_ranges"
        | "msie_padding"
        | "recursive_error_pages"
        | "chunked_transfer_encoding"
        | "ignore_invalid_headers"
        | "underscores_in_headers" => "",
        _ => return false,
    };
    let same = reason.is_empty() || directive.name.ends_with("_size");
    out.note(directive, if same { Verdict::Ignored } else { Verdict::Equivalent }, reason);
    true
}
