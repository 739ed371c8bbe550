//! `tidegate serve`: a folder, or what an nginx configuration says, served from one command. Nothing is kept but a
//! certificate that was made.

pub mod args;
pub mod certificate;

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use self::args::ServeArgs;
use crate::given::Given;
use crate::import;

/// The name that stands for clients which name nobody.
const NAME: &str = "localhost";

/// The configuration that the command line asks for.
///
/// # Errors
/// A folder that is none, a certificate that can't be used, an nginx configuration that can't be read.
pub fn given(args: &ServeArgs) -> anyhow::Result<Given> {
    let mut given = match (&args.nginx_conf, &args.folder) {
        (Some(file), _) => nginx(file)?,
        (None, Some(folder)) => self::folder(args, folder)?,
        (None, None) => bail!("name a folder to serve"),
    };
    let config = &mut given.config;
    config["apisix"]["enable_admin"] = json!(args.admin.is_some());
    if let Some(address) = args.admin {
        config["deployment"]["admin"]["admin_listen"] = listen(address);
    }
    if let Some(workers) = args.workers {
        config["nginx_config"]["worker_processes"] = json!(workers);
    }
    if let Some(file) = &args.access_log {
        let http = &mut config["nginx_config"]["http"];
        http["enable_access_log"] = json!(true);
        http["access_log"] = json!(std::path::absolute(file)?.to_string_lossy());
    }
    Ok(given)
}

fn nginx(file: &Path) -> anyhow::Result<Given> {
    let translation = import::translate(file)?;
    let refused: Vec<_> = translation.refusals().cloned().collect();
    // Other directives are done without; nginx doesn't start where these can't be used.
    if let Some(note) = refused.iter().find(|note| {
        note.directive.starts_with("ssl_certificate") || note.directive.starts_with("ssl_client_certificate")
    }) {
        bail!("{note}");
    }
    let Value::Object(resources) = translation.resources else { bail!("{} serves nothing", file.display()) };
    let origin = file.display().to_string();
    let serves = format!("what {origin} says");
    Ok(Given { origin, config: translation.config, resources, serves, refused })
}

fn folder(args: &ServeArgs, folder: &Path) -> anyhow::Result<Given> {
    let root = folder.canonicalize().with_context(|| format!("{} can't be served", folder.display()))?;
    if !root.is_dir() {
        bail!("{} is no folder", folder.display());
    }
    let pair = pair(args)?;
    let port = if pair.is_some() { 8443 } else { 8080 };
    let address = args.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], port)));
    let mut apisix = json!({ "node_listen": [], "ssl": { "enable": false }, "static_roots": [root] });
    let mut resources = Map::new();
    resources.insert("routes".into(), json!([{ "id": "serve", "uri": "/*", "static": site(args, &root)? }]));
    match pair {
        None => apisix["node_listen"] = json!([listen(address)]),
        Some(pair) => {
            apisix["ssl"] = json!({
                "listen": [listen(address)], "fallback_sni": NAME, "ssl_session_tickets": true,
            });
            let ssl =
                json!({ "id": "serve", "snis": [NAME, "*"], "cert": pair.cert, "key": pair.key.as_str() });
            resources.insert("ssls".into(), json!([ssl]));
        }
    }
    let config = json!({ "apisix": apisix, "nginx_config": { "http": { "enable_access_log": false } } });
    let (origin, serves) = ("the command line".to_owned(), root.display().to_string());
    Ok(Given { origin, config, resources, serves, refused: Vec::new() })
}

fn listen(address: SocketAddr) -> Value {
    json!({ "ip": address.ip(), "port": address.port() })
}

/// The certificate, where there is to be one.
fn pair(args: &ServeArgs) -> anyhow::Result<Option<certificate::Pair>> {
    match &args.tls[..] {
        [] if args.self_signed => {}
        [] => return Ok(None),
        [cert, key] => return certificate::read(cert, key).map(Some),
        _ => bail!("one certificate and one key: --tls CERT KEY"),
    }
    let folder = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => certificate::folder()?,
    };
    let ip = args.listen.map_or([127, 0, 0, 1].into(), |address| address.ip());
    certificate::kept(&folder, ip).map(Some)
}

/// The static origin.
fn site(args: &ServeArgs, root: &Path) -> anyhow::Result<Value> {
    let Some(root_text) = root.to_str() else { bail!("{} has a name that is no UTF-8", root.display()) };
    let mut site = json!({ "root": root_text, "autoindex": args.autoindex });
    if args.spa {
        site["try_files"] = json!(["$uri", "$uri/", "/index.html"]);
    }
    if !args.no_compress {
        site["compress"] = json!({ "encodings": ["br", "zstd", "gzip"] });
    }
    // As many servers of folders have it; the page may come later, and is nothing where it doesn't.
    site["error_pages"] = json!({ "404": "/404.html" });
    Ok(site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn serve(line: &str) -> anyhow::Result<Given> {
        let words = ["tidegate", "serve"].into_iter().chain(line.split_whitespace());
        let Command::Serve(args) = Cli::try_parse_from(words)?.command else { panic!("{line}") };
        given(&args)
    }

    #[test]
    fn only_what_is_asked_for_listens() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().display();
        for (options, plain, tls) in [
            ("", vec!["127.0.0.1:8080"], vec![]),
            ("-l 0.0.0.0:8001", vec!["0.0.0.0:8001"], vec![]),
            ("--self-signed --data-dir DIR/data", vec![], vec!["127.0.0.1:8443"]),
        ] {
            let line = format!("DIR {options}").replace("DIR", &dir.to_string());
            let settings = serve(&line).unwrap().settings().unwrap_or_else(|report| panic!("{report}"));
            assert!(settings.warnings.is_empty(), "{}", settings.warnings);
            let settings = settings.settings;
            let shown = |listen: &[config::settings::Listen]| {
                listen.iter().map(|listen| listen.address.to_string()).collect::<Vec<_>>()
            };
            assert_eq!(
                (shown(&settings.proxy.listen), shown(&settings.tls.listen)),
                (
                    plain.into_iter().map(str::to_owned).collect(),
                    tls.into_iter().map(str::to_owned).collect()
                )
            );
            assert!(settings.admin.is_none() && settings.control.is_none() && settings.status.is_none());
            assert_eq!(settings.metrics.listen, None);
        }
        let asked = serve(&format!("{dir} --admin 9181 -w 3")).unwrap().settings().unwrap().settings;
        assert_eq!(asked.admin.unwrap().listen.to_string(), "127.0.0.1:9181");
        assert_eq!(asked.process.workers, Some(3));
    }

    #[test]
    fn options_become_the_static_origin() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().display();
        let site = |options: &str| {
            serve(&format!("{dir} {options}")).unwrap().resources["routes"][0]["static"].clone()
        };
        assert_eq!(site("")["compress"]["encodings"], json!(["br", "zstd", "gzip"]));
        assert_eq!(site("--no-compress").get("compress"), None);
        assert_eq!(site("--spa")["try_files"][2], "/index.html");
        assert_eq!(site("--autoindex")["autoindex"], true);
    }

    #[test]
    fn what_can_not_be_served_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().display().to_string();
        std::fs::write(folder.path().join("file"), "").unwrap();
        for (line, words) in [
            ("/no/such/folder".to_owned(), "can't be served"),
            (format!("{dir}/file"), "is no folder"),
            (format!("{dir} --tls {dir}/a {dir}/b"), "can't be read"),
            (format!("{dir} --listen 0"), "name a port"),
            (format!("{dir} --self-signed --tls a b"), "cannot be used with"),
            (String::new(), "required"),
        ] {
            let error = serve(&line).map(drop).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{line}: {error:#}");
        }
    }
}
