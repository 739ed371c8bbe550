//! What `tidegate serve` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The examples of `tidegate serve --help`.
pub const EXAMPLES: &str = "\
Examples:
  tidegate serve site                           http://127.0.0.1:8080/, for this machine alone
  tidegate serve site --self-signed             https://127.0.0.1:8443/, with a certificate made for it
  tidegate serve dist --spa --listen 0.0.0.0:80 a single-page application, for everybody
  tidegate serve site --tls site.crt site.key   a certificate of your own
  tidegate serve --nginx-conf nginx.conf        what nginx would serve; `tidegate import nginx` tells the differences

Files are looked up below DIR and nowhere else; names with a leading dot are not served. Text is compressed with brotli,
zstd or gzip, once per file; `app.js.br` beside `app.js` is sent as it is. Nothing is written into DIR.";

/// What `tidegate serve` takes.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// The folder to serve
    #[arg(value_name = "DIR", required_unless_present = "nginx_conf", conflicts_with = "nginx_conf")]
    pub folder: Option<PathBuf>,
    /// Serve what this nginx configuration says instead of a folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "tls", "self_signed", "spa", "autoindex", "no_compress"])]
    pub nginx_conf: Option<PathBuf>,
    /// Where to listen: a port of this machine alone, or an address with a port [default: 8080, with TLS 8443]
    #[arg(short, long, value_name = "[IP:]PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// Serve over HTTPS with this certificate (chain) and key, in PEM
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    pub tls: Vec<PathBuf>,
    /// Serve over HTTPS with a certificate that is made at the first run and kept; browsers warn of it
    #[arg(long, conflicts_with = "tls")]
    pub self_signed: bool,
    /// A single-page application: /index.html for every path without a file
    #[arg(long)]
    pub spa: bool,
    /// List folders that have no index.html
    #[arg(long)]
    pub autoindex: bool,
    /// Send files as they are, or as they lie compressed beside themselves
    #[arg(long)]
    pub no_compress: bool,
    /// Workers [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Write an access log to this file; /dev/stdout shows requests as they come
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Open the Admin API here; changes last until the next reload
    #[arg(long, value_name = "[IP:]PORT", value_parser = parse_address)]
    pub admin: Option<SocketAddr>,
    /// Where the pid file, the logs and a certificate that was made are kept; `tidegate reload` and `stop` find the
    /// process by it [default: a temporary folder; tidegate in the user's data folder for a certificate]
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

/// An address; a port alone is one of this machine.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port: Option<u16> = text.strip_prefix(':').unwrap_or(text).parse().ok();
    let local = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    match local.or_else(|| text.parse().ok()) {
        Some(address) if address.port() > 0 => Ok(address),
        Some(_) => Err("port 0 can't be opened in a browser: name a port".to_owned()),
        None => Err("expected a port (8080), or an address with one (0.0.0.0:8080, [::1]:8080)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine() {
        for (text, expected) in [
            ("8080", Some("127.0.0.1:8080")),
            (":8080", Some("127.0.0.1:8080")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("[::]:80", Some("[::]:80")),
            ("0", None),
            ("localhost:80", None),
            ("127.0.0.1", None),
            ("65536", None),
        ] {
            assert_eq!(
                parse_address(text).ok().map(|address| address.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
