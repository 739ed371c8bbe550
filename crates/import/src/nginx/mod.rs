//! nginx.conf.
//!
//! [`translate`] reads a configuration with its includes and gives what Tidegate needs to do the same: settings for
//! `config.yaml`, routes with what they lead to, and certificates.

mod access;
mod known;
mod location;
mod main_block;
mod proxy;
mod scope;
mod server;
mod tls;
mod tree;
mod units;
mod upstream;

use crate::{Note, Translation, Verdict};
use document::Diagnostic;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;
use tree::Directive;

/// Translates an nginx configuration.
///
/// # Errors
/// The first mistake of the language, or a file that can't be read. What is understood and can't be translated is no
/// error: it is among the [`Translation::notes`].
pub fn translate(path: &Path) -> Result<Translation, Box<Diagnostic>> {
    let directives = tree::read(path)?;
    let folder = std::path::absolute(path)
        .ok()
        .and_then(|path| path.parent().map(|folder| folder.to_string_lossy().into_owned()))
        .unwrap_or_default();
    let mut out = Out { folder, ..Out::default() };
    main_block::translate(&mut out, &directives);
    Ok(out.finish())
}

/// Translates a text alone, as fuzz targets need it: no file is opened, whatever the text includes.
///
/// # Errors
/// The first mistake of the language.
#[doc(hidden)]
pub fn translate_text(text: &str) -> Result<Translation, Box<Diagnostic>> {
    let directives = tree::read_text(Path::new("nginx.conf"), text)?;
    let mut out = Out { alone: true, ..Out::default() };
    main_block::translate(&mut out, &directives);
    Ok(out.finish())
}

/// The translation in the making.
#[derive(Default)]
struct Out {
    /// Whether no file is opened.
    alone: bool,
    /// Where relative paths start.
    folder: String,
    config: Map<String, Value>,
    routes: Vec<Value>,
    ssls: Vec<Value>,
    notes: Vec<Note>,
}

impl Out {
    fn note(&mut self, directive: &Directive, verdict: Verdict, reason: impl Into<String>) {
        self.notes.push(Note {
            file: directive.place.file.to_path_buf(),
            line: directive.place.line,
            column: directive.place.column,
            directive: directive.text(),
            verdict,
            reason: reason.into(),
        });
    }

    fn refuse(&mut self, directive: &Directive, reason: impl Into<String>) {
        self.note(directive, Verdict::Refused, reason);
    }

    fn taken(&mut self, directive: &Directive, into: &str) {
        self.note(directive, Verdict::Taken, into);
    }

    /// Sets a key of `config.yaml` by its path with dots.
    fn set(&mut self, path: &str, value: Value) {
        let mut at = &mut self.config;
        let mut keys = path.split('.').peekable();
        while let Some(key) = keys.next() {
            if keys.peek().is_none() {
                at.insert(key.to_owned(), value);
                return;
            }
            let inner = at.entry(key).or_insert_with(|| json!({}));
            let Value::Object(map) = inner else { return };
            at = map;
        }
    }

    /// Whether `config.yaml` has a key, by its JSON pointer.
    fn has(&self, pointer: &str) -> bool {
        let (first, rest) = pointer[1..].split_once('/').unwrap_or((&pointer[1..], ""));
        let found = self.config.get(first);
        found.is_some_and(|value| rest.is_empty() || value.pointer(&format!("/{rest}")).is_some())
    }

    /// Adds to a list of `config.yaml`, once.
    fn add(&mut self, path: &str, value: Value) {
        let pointer = format!("/{}", path.replace('.', "/"));
        let known = Value::Object(self.config.clone());
        let mut list = known.pointer(&pointer).and_then(Value::as_array).cloned().unwrap_or_default();
        if !list.contains(&value) {
            list.push(value);
            self.set(path, Value::Array(list));
        }
    }

    /// A path of the configuration as an absolute one.
    fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.folder) }
    }

    /// The text of a file that the configuration names.
    fn read(&self, path: &str) -> io::Result<String> {
        if self.alone {
            return Err(io::ErrorKind::NotFound.into());
        }
        stdx::file::read_text(Path::new(&self.absolute(path)), stdx::file::CREDENTIALS_BYTES_MAX)
    }

    fn finish(mut self) -> Translation {
        let roots: Vec<Value> =
            self.routes.iter().filter_map(|route| route.pointer("/static/root").cloned()).collect();
        // Resources name no other folders than those that config.yaml allows.
        roots.into_iter().for_each(|root| self.add("apisix.static_roots", root));
        let mut resources = Map::new();
        for (kind, list) in [("routes", self.routes), ("ssls", self.ssls)] {
            if !list.is_empty() {
                resources.insert(kind.to_owned(), Value::Array(list));
            }
        }
        Translation {
            config: Value::Object(self.config),
            resources: Value::Object(resources),
            notes: self.notes,
        }
    }
}

#[cfg(test)]
mod tests;
