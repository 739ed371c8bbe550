//! TLS of the Admin API (`deployment.admin.https_admin`, `admin_api_mtls`): its files, read at the start and at every
//! reload.

use crate::launch::Launch;
use anyhow::{Context as _, anyhow};
use config::settings::Settings;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tls::rustls::ServerConfig;
use tls::{ListenerError, ListenerPem, ServerOptions};

/// What stands before the names of the three settings.
const SECTION: &str = "deployment.admin.admin_api_mtls";

/// Reads the files and makes the configuration of handshakes; `None` where the Admin API is in the clear.
///
/// # Errors
/// A file that can't be read, or whose certificate or key can't be used now, with the setting that names it.
pub fn make(settings: &Settings, launch: &Launch) -> anyhow::Result<Option<Arc<ServerConfig>>> {
    let Some(files) = settings.admin.as_ref().and_then(|admin| admin.tls.as_ref()) else { return Ok(None) };
    let read = |setting: &str, path: &Path| {
        let text = std::fs::read_to_string(launch.resolve(path));
        text.with_context(|| format!("{SECTION}.{setting}: {} can't be read", path.display()))
    };
    let chain = read("admin_ssl_cert", &files.cert)?;
    let key = read("admin_ssl_cert_key", &files.key)?;
    let client_ca = files.client_ca.as_ref().map(|path| read("admin_ssl_ca_cert", path)).transpose()?;
    // One protocol is spoken there, whatever the data plane offers.
    let options = ServerOptions { alpn: vec!["http/1.1"], ..settings.tls.options.clone() };
    let pem = ListenerPem { chain: &chain, key: &key, client_ca: client_ca.as_deref() };
    let made = tls::for_listener(&options, pem, now_s());
    made.map(Some).map_err(|error| {
        let at = |setting: &str, path: &Path| anyhow!("{SECTION}.{setting}: {}: {error}", path.display());
        match &error {
            ListenerError::Chain(_) => at("admin_ssl_cert", &files.cert),
            ListenerError::Key(_) => at("admin_ssl_cert_key", &files.key),
            ListenerError::ClientCa(_) => {
                at("admin_ssl_ca_cert", files.client_ca.as_deref().unwrap_or(&files.cert))
            }
            ListenerError::Options(_) => anyhow!("apisix.ssl: {error}"),
        }
    })
}

/// The time in seconds since 1970.
fn now_s() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_secs()).unwrap_or(i64::MAX)
}
