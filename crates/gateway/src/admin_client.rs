//! The Admin API from its other end: what the subcommands ask of a running gateway. Blocking, one request on one
//! connection, so that no HTTP client is needed.

use crate::cli::AdminArgs;
use crate::command::checked;
use crate::config::Reach;
use crate::config::settings::AdminRole;
use crate::launch;
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the gateway may take between two parts of its answer; a large transaction is checked in seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A way to the Admin API.
#[derive(Debug, Clone)]
pub struct AdminClient {
    authority: String,
    key: String,
}

impl AdminClient {
    /// The API and the key that the arguments name, or else the configuration, or else the data directory.
    ///
    /// # Errors
    /// When they can't be found out.
    pub fn new(args: &AdminArgs) -> anyhow::Result<Self> {
        let settings = match (&args.admin, &args.key) {
            (Some(_), Some(_)) => None,
            _ => {
                let file = launch::config_file(&args.common);
                Some(checked(launch::load(file.as_deref(), Reach::Anyone), true)?)
            }
        };
        let admin = settings.as_ref().and_then(|settings| settings.admin.as_ref());
        let authority = match &args.admin {
            Some(url) => authority(url)?,
            None => admin
                .context("the Admin API is switched off; name another one with --admin")?
                .listen
                .to_string(),
        };
        let configured = || {
            let keys = admin.map(|admin| admin.keys.as_slice()).unwrap_or_default();
            keys.iter().find(|key| key.role == AdminRole::Admin).map(|key| key.key.clone())
        };
        let key = match args.key.clone().or_else(configured) {
            Some(key) => key,
            None => {
                let path = launch::data_dir(&args.common)?.join("admin.key");
                let read = std::fs::read_to_string(&path);
                let hint = || format!("no key is known (--key, the configuration, {})", path.display());
                read.with_context(hint)?.trim().to_owned()
            }
        };
        Ok(Self { authority, key })
    }

    /// Asks for what must be there.
    ///
    /// # Errors
    /// When the API can't be reached or answers something else than success.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        match self.call("GET", path, None)? {
            (200..=299, answer) => Ok(answer),
            (status, answer) => bail!("GET {path}: {status}: {}", said(&answer)),
        }
    }

    /// One request below `/apisix/admin`: the status and the body.
    ///
    /// # Errors
    /// When the API can't be reached.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let asked = self.exchange(method, path, &body);
        asked.with_context(|| format!("the Admin API at {} can't be asked", self.authority))
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, Value)> {
        let address = self.authority.to_socket_addrs()?.next().context("the name has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if !self.key.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("the key has characters that no key has");
        }
        let head = format!(
            "{method} /apisix/admin{path} HTTP/1.0\r\nHost: {}\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.authority,
            self.key,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no HTTP answer")?;
        Ok((status, serde_json::from_str(body).unwrap_or_else(|_| Value::from(body))))
    }
}

/// What a refusal says.
pub fn said(answer: &Value) -> String {
    let words = ["error_msg", "description", "message"].iter().filter_map(|name| answer.get(name)?.as_str());
    let words: Vec<&str> = words.collect();
    if words.is_empty() { answer.to_string() } else { words.join(": ") }
}

/// Host and port of a URL.
fn authority(url: &str) -> anyhow::Result<String> {
    if url.starts_with("https://") {
        bail!("{url}: only http:// is spoken here; use a tunnel for an Admin API behind TLS");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (authority, has_port) {
        ("", _) => bail!("{url} names no host"),
        (_, true) => Ok(authority.to_owned()),
        (_, false) => Ok(format!("{authority}:9180")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_and_port() {
        for (url, expected) in [
            ("http://a.com", Some("a.com:9180")),
            ("http://127.0.0.1:9080/apisix/admin", Some("127.0.0.1:9080")),
            ("[::1]:9180", Some("[::1]:9180")),
            ("https://a.com", None),
            ("http://", None),
        ] {
            assert_eq!(authority(url).ok().as_deref(), expected, "{url}");
        }
    }
}
