//! The traffic that the profile is taken from: a gateway, the node behind it and an HTTPS server, all of them the binary
//! itself, and its load generator. Nothing else has to be installed, and each part learns from the others' requests.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, bail};

/// An instrumented binary under a loaded machine takes its time.
const START_MAX: Duration = Duration::from_secs(60);

/// Who is asked.
#[derive(Clone, Copy)]
enum Server {
    /// The gateway, in the clear.
    Gateway,
    /// The server of files, over TLS.
    Files,
}

/// So many requests, with these options of `tidegate bench`.
struct Load {
    server: Server,
    path: &'static str,
    options: &'static str,
    requests: u32,
}

/// What is asked, and how often. Numbers of requests are weights: the paths that matter most come most often, and what is
/// not asked at all is taken for rare and moved out of the way. Connections as in the studies: 1, 16 and 128.
const LOADS: &[Load] = &[
    load(Server::Gateway, "/hello", "-c 1", 30_000),
    load(Server::Gateway, "/hello", "-c 16", 100_000),
    load(Server::Gateway, "/hello", "-c 128", 100_000),
    load(Server::Gateway, "/limited", "-c 16", 100_000),
    load(Server::Gateway, "/limited", "-c 128", 50_000),
    load(Server::Gateway, "/k1", "-c 16", 50_000),
    load(Server::Gateway, "/k64", "-c 16", 20_000),
    load(Server::Gateway, "/hello", "-c 16 --pipeline 8", 20_000),
    load(Server::Gateway, "/hello", "-c 16 --body name=value&another=value", 20_000),
    load(Server::Gateway, "/nowhere", "-c 16 --threshold errors<=100%", 10_000),
    load(Server::Gateway, "/secure", "-c 16", 30_000),
    load(Server::Files, "/hello", "-c 16", 30_000),
    load(Server::Files, "/k64", "-c 16", 10_000),
    load(Server::Files, "/page.html", "-c 16 -H Accept-Encoding:gzip", 30_000),
    load(Server::Files, "/hello", "-c 4 --http2 --pipeline 8", 50_000),
    load(Server::Files, "/k64", "-c 4 --http2 --pipeline 8", 10_000),
];

const fn load(server: Server, path: &'static str, options: &'static str, requests: u32) -> Load {
    Load { server, path, options, requests }
}

/// Runs the traffic with a `share`th of the requests; `folder` takes what the servers need.
///
/// # Errors
/// When a server doesn't start, or a request isn't answered as it should be.
pub(super) fn run(binary: &Path, folder: &Path, share: u32) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    let site = site(folder)?;
    let serve = |port: u16, name: &str, more: &[&str]| {
        let mut arguments = vec!["serve".to_owned(), site.display().to_string()];
        arguments.extend([
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--workers".to_owned(),
            "1".to_owned(),
        ]);
        arguments.extend(more.iter().map(|&option| option.to_owned()));
        Running::start(binary, &arguments, folder.join(name), port)
    };
    let (node_port, files_port, gateway_port) = (free_port()?, free_port()?, free_port()?);
    let node = serve(node_port, "node", &[])?;
    let files = serve(files_port, "files", &["--self-signed"])?;
    let config = configuration(folder, gateway_port, node_port, files_port)?;
    let start = ["start".to_owned(), "-c".to_owned(), config.display().to_string()];
    let gateway = Running::start(binary, &start, folder.join("gateway"), gateway_port)?;
    for load in LOADS {
        let origin = match load.server {
            Server::Gateway => format!("http://127.0.0.1:{gateway_port}"),
            Server::Files => format!("https://127.0.0.1:{files_port}"),
        };
        load.run(binary, &origin, share)?;
    }
    // Profiles are written as a process exits.
    [gateway, files, node].into_iter().try_for_each(Running::stop)
}

impl Load {
    fn run(&self, binary: &Path, origin: &str, share: u32) -> anyhow::Result<()> {
        let url = format!("{origin}{}", self.path);
        let requests = (self.requests / share).to_string();
        println!("{requests} requests to {url} {}", self.options);
        let output = Command::new(binary)
            .args(["bench", &url, "--quiet", "-n", &requests])
            .args(self.options.split(' '))
            // The certificate is its own.
            .args(matches!(self.server, Server::Files).then_some("--insecure"))
            .output()
            .with_context(|| format!("{} could not be started", binary.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            bail!("{url}: {}\n{said}", output.status);
        }
        Ok(())
    }
}

/// The files that are asked for.
fn site(folder: &Path) -> anyhow::Result<PathBuf> {
    let site = folder.join("site");
    fs::create_dir_all(&site).with_context(|| format!("making {}", site.display()))?;
    let hello = "hello world\n";
    let words = "<p>It is worth while to compress a page as long as this one.</p>\n";
    for (name, text) in [
        ("hello", hello.to_owned()),
        ("limited", hello.to_owned()),
        ("secure", hello.to_owned()),
        ("k1", "x".repeat(1 << 10)),
        ("k64", "x".repeat(1 << 16)),
        ("page.html", words.repeat(800)),
    ] {
        fs::write(site.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok(site)
}

/// A gateway of one worker with the studies' two routes, and one to an upstream over TLS.
fn configuration(folder: &Path, gateway: u16, node: u16, files: u16) -> anyhow::Result<PathBuf> {
    let (status, metrics) = (free_port()?, free_port()?);
    let config = format!(
        "apisix:
  node_listen: [{{ip: 127.0.0.1, port: {gateway}}}]
  enable_control: false
  ssl: {{enable: false}}
  status: {{ip: 127.0.0.1, port: {status}}}
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
plugin_attr: {{prometheus: {{export_addr: {{ip: 127.0.0.1, port: {metrics}}}}}}}
nginx_config: {{worker_processes: 1}}
"
    );
    let resources = format!(
        "routes:
  - {{id: plain, uri: /*, upstream: {{nodes: {{\"127.0.0.1:{node}\": 1}}}}}}
  - id: limited
    uri: /limited
    plugins:
      limit-count: {{count: 2000000000000, time_window: 60, rejected_code: 503, key: remote_addr}}
      prometheus: {{}}
    upstream: {{nodes: {{\"127.0.0.1:{node}\": 1}}}}
  - {{id: secure, uri: /secure, upstream: {{scheme: https, nodes: {{\"127.0.0.1:{files}\": 1}}}}}}
#END
"
    );
    let path = folder.join("config.yaml");
    fs::write(&path, config).context("writing config.yaml")?;
    fs::write(folder.join("apisix.yaml"), resources).context("writing apisix.yaml")?;
    Ok(path)
}

/// A server, ended with its owner.
struct Running {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
}

impl Running {
    /// Starts it and waits until it listens.
    fn start(binary: &Path, arguments: &[String], data: PathBuf, port: u16) -> anyhow::Result<Self> {
        fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
        let log = fs::File::create(data.join("output")).context("making the log of a server")?;
        let child = Command::new(binary)
            .args(arguments)
            .arg("--data-dir")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing a log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} could not be started", binary.display()))?;
        let mut running = Self { child, binary: binary.to_owned(), data };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if running.child.try_wait()?.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(running.data.join("output")).unwrap_or_default();
                bail!("`tidegate {}` did not start:\n{said}", arguments.join(" "));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// Ends it as a user would, so that it exits by itself.
    fn stop(mut self) -> anyhow::Result<()> {
        let status = Command::new(&self.binary).arg("stop").arg("--data-dir").arg(&self.data).status()?;
        if !status.success() {
            bail!("tidegate stop: {status}");
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Neither matters where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("asking for a port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_is_answered() {
        // This test's own binary lies in target/debug/deps.
        let deps = std::env::current_exe().unwrap();
        let binary = deps.parent().and_then(Path::parent).unwrap().join("tidegate");
        assert!(binary.exists(), "{} is not there: run `cargo build --package gateway`", binary.display());
        let folder = deps.parent().unwrap().join(format!("training-{}", std::process::id()));
        let trained = run(&binary, &folder, 200);
        fs::remove_dir_all(&folder).unwrap();
        trained.unwrap();
    }
}
