//! The Admin API from its other end: what the subcommands ask of a running gateway.

use crate::cli::{AdminArgs, TlsArgs};
use crate::launch;
use crate::output::checked;
use anyhow::{Context, bail};
use config::Reach;
use config::settings::{AdminRole, AdminTls};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use stdx::Secret;
use tls::CallIdentity;
use ureq::Agent;
use ureq::tls::TlsConfig;

/// How long the gateway may take for its answer; a large transaction is checked in seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer in bytes: the list of 100,000 routes of 4 KiB.
const ANSWER_BYTES_MAX: u64 = 512 << 20;

/// A way to the Admin API.
#[derive(Debug, Clone)]
pub struct AdminClient {
    /// Scheme, host and port.
    base: String,
    key: Secret,
    agent: Agent,
}

impl AdminClient {
    /// The API and the key that the arguments name, or else the configuration, or else the data directory. This
    /// gateway's own key is sent to this machine alone.
    ///
    /// # Errors
    /// When they can't be found out.
    pub fn new(args: &AdminArgs) -> anyhow::Result<Self> {
        let base = args.admin.as_deref().map(base).transpose()?;
        if let (Some(base), None) = (&base, &args.key)
            && !is_this_machine(base)
        {
            bail!(
                "--admin {base} is another machine: name its key with --key; the key of this gateway is not sent there"
            );
        }
        let settings = match (&base, &args.key) {
            (Some(_), Some(_)) => None,
            _ => {
                let file = launch::config_file(&args.common);
                Some(checked(launch::load(file.as_deref(), Reach::Anyone), true)?)
            }
        };
        let admin = settings.as_ref().and_then(|settings| settings.admin.as_ref());
        let base = match base {
            Some(base) => base,
            None => {
                let admin = admin.context("the Admin API is switched off; name another one with --admin")?;
                let scheme = if admin.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", admin.listen)
            }
        };
        let configured = || {
            let keys = admin.map(|admin| admin.keys.as_slice()).unwrap_or_default();
            keys.iter().find(|key| key.role == AdminRole::Admin).map(|key| Secret::from(key.key.as_str()))
        };
        let key = match args.key.clone().or_else(configured) {
            Some(key) => key,
            None if admin.is_some_and(|admin| !admin.key_required) => Secret::from(""),
            None => {
                let path = launch::data_dir(&args.common)?.join("admin.key");
                let read = stdx::file::read_text(&path, stdx::file::CREDENTIALS_BYTES_MAX);
                let hint = || format!("no key is known (--key, the configuration, {})", path.display());
                read.with_context(hint)?.trim().into()
            }
        };
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("the admin key contains invalid characters");
        }
        let own = admin.and_then(|admin| admin.tls.as_ref()).filter(|_| is_this_machine(&base));
        let agent = agent(PATIENCE, tls_of(args, own)?);
        Ok(Self { base, key, agent })
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
        self.exchange(method, path, &body).map_err(|error| {
            let hint = hint(&format!("{error:#}")).map(|hint| format!(" ({hint})")).unwrap_or_default();
            error.context(format!("the Admin API at {} can't be asked{hint}", self.base))
        })
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, Value)> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}/apisix/admin{path}", self.base));
        // Without `admin_key_required` there may be none.
        if !self.key.as_str().is_empty() {
            request = request.header("X-API-KEY", self.key.as_str());
        }
        let request = request.header("Content-Type", "application/json");
        let mut response = match body {
            "" => self.agent.run(request.body(())?)?,
            body => self.agent.run(request.body(body)?)?,
        };
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string()?;
        let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
        Ok((response.status().as_u16(), body))
    }
}

/// Returns the agent of the subcommands. It uses no proxy and follows no redirect: requests carry keys, and go to the
/// named machine alone.
pub(crate) fn agent(patience: Duration, tls: TlsConfig) -> Agent {
    Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT.min(patience)))
        .timeout_recv_response(Some(patience))
        .timeout_recv_body(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build()
        .into()
}

/// TLS as the arguments say. Without an authority named, `own` counts besides the system's: the files of the gateway on
/// this machine.
fn tls_of(args: &AdminArgs, own: Option<&AdminTls>) -> anyhow::Result<TlsConfig> {
    let TlsArgs { ca_cert, client_cert, client_key } = &args.tls;
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
    };
    let authorities = match (ca_cert, own) {
        (Some(path), _) => Some(read(path)?),
        (None, Some(own)) => {
            let data_dir = launch::data_dir(&args.common)?;
            let files = [Some(&own.cert), own.client_ca.as_ref()].into_iter().flatten();
            Some(files.map(|path| read(&data_dir.join(path))).collect::<Result<String, _>>()?)
        }
        (None, None) => None,
    };
    let pair = match (client_cert, client_key) {
        (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
        _ => None,
    };
    let identity = pair.as_ref().map(|(chain, key)| CallIdentity { chain, key });
    tls::for_calls_with(authorities.as_deref(), identity).context("TLS with the Admin API")
}

/// What to do about a connection that TLS refused.
fn hint(error: &str) -> Option<&'static str> {
    let hints = [
        ("UnknownIssuer", "name the authority of its certificate with --ca-cert"),
        ("CaUsedAsEndEntity", "name the authority of its certificate with --ca-cert"),
        ("not valid for", "name the gateway as its certificate does: --admin https://NAME:PORT"),
        ("CertificateRequired", "it asks for a client certificate: --client-cert and --client-key"),
        ("HandshakeFailure", "it may ask for a client certificate: --client-cert and --client-key"),
        ("UnknownCA", "it does not know the authority of the client certificate"),
        ("InvalidContentType", "it speaks no TLS: ask for it with http://"),
    ];
    hints.iter().find(|(words, _)| error.contains(words)).map(|(_, hint)| *hint)
}

/// What a refusal says.
pub fn said(answer: &Value) -> String {
    let words = ["error_msg", "description", "message"].iter().filter_map(|name| answer.get(name)?.as_str());
    let words: Vec<&str> = words.collect();
    if words.is_empty() { answer.to_string() } else { words.join(": ") }
}

/// Returns scheme, host and port of a URL, without its path. The scheme is `http` where there is none, and the port
/// APISIX's 9180, or 443 with `https`.
fn base(url: &str) -> anyhow::Result<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let port = match scheme {
        "http" => 9180,
        "https" => 443,
        _ => bail!("{url}: http:// or https:// is expected"),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (authority, has_port) {
        ("", _) => bail!("{url} names no host"),
        (named, _) if named.contains('@') => bail!("{url}: a key is named with --key, not in the URL"),
        (_, true) => Ok(format!("{scheme}://{authority}")),
        (_, false) => Ok(format!("{scheme}://{authority}:{port}")),
    }
}

/// Returns whether a base leads to this machine, whatever a name service says.
fn is_this_machine(base: &str) -> bool {
    let authority = base.split_once("://").map_or(base, |(_, authority)| authority);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_scheme_host_and_port() {
        for (url, expected) in [
            ("http://a.com", Some("http://a.com:9180")),
            ("http://127.0.0.1:9080/apisix/admin", Some("http://127.0.0.1:9080")),
            ("[::1]:9180", Some("http://[::1]:9180")),
            ("localhost", Some("http://localhost:9180")),
            ("https://a.com", Some("https://a.com:443")),
            ("http://", None),
            ("ftp://a.com", None),
            ("http://127.0.0.1@a.com:80", None),
        ] {
            assert_eq!(base(url).ok().as_deref(), expected, "{url}");
        }
    }

    fn args(admin: &str, key: Option<&str>) -> AdminArgs {
        let mut words = vec!["tidegate", "config", "dump", "--admin", admin];
        words.extend(key.iter().flat_map(|key| ["--key", key]));
        let cli = <crate::cli::Cli as clap::Parser>::try_parse_from(words).unwrap();
        match cli.command {
            crate::cli::Command::Config(crate::cli::ConfigCommand::Dump(args)) => args.admin,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn this_gateways_key_is_not_sent_to_another_machine() {
        for url in [
            "http://gateway.example:9180",
            "10.0.0.1",
            "http://localhost.example",
            "http://[2001:db8::1]:9180",
        ] {
            let refused = AdminClient::new(&args(url, None)).unwrap_err().to_string();
            assert!(refused.contains("--key"), "{refused}");
            assert!(AdminClient::new(&args(url, Some("k"))).is_ok(), "{url}");
        }
        for url in ["localhost", "http://127.0.0.2:80", "http://[::1]:9180", "[::ffff:127.0.0.1]:1"] {
            assert!(is_this_machine(&base(url).unwrap()), "{url}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let args = args("http://a.com", Some("s3cret"));
        let client = AdminClient::new(&args).unwrap();
        assert!(!format!("{args:?} {client:?}").contains("s3cret"));
    }

    #[test]
    fn every_address_of_a_name_is_tried() {
        // `localhost` is ::1 first on many systems, while the gateway listens on 127.0.0.1.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut stream = listener.accept().unwrap().0;
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}").unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let client = AdminClient::new(&args(&format!("http://localhost:{port}"), Some("k"))).unwrap();
        assert_eq!(client.get("/routes").unwrap()["a"], 1);
        assert!(server.join().unwrap().starts_with("GET /apisix/admin/routes HTTP/1.1\r\n"));
    }
}
