//! What a scenario needs, started: the node, the gateway with its route, and the peer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ScenarioArgs;
use super::files::{self, Gzip};
use super::party::{Party, free_ports, program};
use crate::cli::Session;
use crate::http::{Request, Tls, TlsOptions};
use crate::load::{Pace, Plan, Protocol, Scheme, Tally, Target};
use crate::result::Pin;

/// How long anything may take to be ready.
const PATIENCE: Duration = Duration::from_secs(15);

/// The Admin API's key: of a gateway on loopback that lives for a few minutes.
const ADMIN_KEY: &str = "the-key-of-a-gateway-that-lives-as-long-as-its-measurement";

/// The cores of those who take part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    server: Option<usize>,
    node: Option<usize>,
    pub(super) client: Option<usize>,
}

/// One server that is measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) seen: Tally,
    party: Option<Party>,
}

/// All that takes part. The folder goes last.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) measured: Vec<Measured>,
    pub(super) cores: Cores,
    /// None where the gateway serves files itself.
    node: Option<Party>,
    _folder: TempDir,
}

impl Cores {
    /// Server and client apart; the node beside the client where there are two cores alone.
    pub(super) fn choose(pinned: bool) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        match (pinned, count) {
            (false, _) | (_, 1) => Self { server: None, node: None, client: None },
            (true, 2) => Self { server: Some(0), node: Some(1), client: Some(1) },
            (true, _) => Self { server: Some(0), node: Some(1), client: Some(2) },
        }
    }
}

impl Stage {
    /// Starts everything, and waits until each server answers what it is going to be asked.
    pub(super) fn set(args: &ScenarioArgs, route: Option<&str>, session: &Session) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut cores = Cores::choose(!args.no_pin);
        if args.worker > 1 {
            // Several workers need several cores, which ones is the kernel's choice.
            cores.server = None;
        }
        let mut stage = Self { measured: Vec::new(), cores, node: None, _folder: folder };
        match route {
            Some(route) => stage.set_proxies(args, route, session)?,
            None => stage.set_files(args, session)?,
        }
        Ok(stage)
    }

    /// The gateway, its node and its peer as proxies.
    fn set_proxies(&mut self, args: &ScenarioArgs, route: &str, session: &Session) -> Result<(), String> {
        let port = free_ports(1)?[0];
        let config = include_str!("../../data/scenario/node.conf").replace("PORT", &port.to_string());
        self.node = Some(start_nginx("node", &config, self.folder(), self.cores.node)?);
        self.add_gateway(args, route, port, session)?;
        match args.peer.as_deref() {
            None => {}
            Some(name @ ("nginx" | "haproxy")) => self.add_proxy(args, name, port, session)?,
            Some(url) => {
                let plan = plan(args, url, self.cores)?;
                self.add("peer", plan, None, session)?;
            }
        }
        Ok(())
    }

    /// The gateway and its peer as servers of a file.
    fn set_files(&mut self, args: &ScenarioArgs, session: &Session) -> Result<(), String> {
        files::prepare(self.folder())?;
        let port = free_ports(1)?[0];
        let file = self.folder().join("tidegate.conf");
        std::fs::write(&file, files::configuration(port, args.worker, Gzip::Served))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = Command::new(gateway(args)?);
        command.args(["serve", "--nginx-conf", "tidegate.conf"]).env_remove("TIDEGATE_DATA_DIR");
        let party = Party::start("tidegate", command, self.folder(), self.cores.server)?;
        self.add("tidegate", file_plan(args, &file_url(port), self.cores)?, Some(party), session)?;
        let gzip = match args.peer.as_deref() {
            None => return Ok(()),
            Some("nginx") => Gzip::Served,
            Some("nginx-best") => {
                files::precompress(self.folder())?;
                Gzip::Before
            }
            Some("haproxy") => return Err("HAProxy serves no files: name nginx, nginx-best or a URL".into()),
            Some(url) => {
                let plan = file_plan(args, url, self.cores)?;
                return self.add("peer", plan, None, session);
            }
        };
        let port = free_ports(1)?[0];
        // In the foreground, and in this folder alone.
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr crit;\n{}",
            files::configuration(port, 1, gzip)
        );
        let party = start_nginx("nginx", &config, self.folder(), self.cores.server)?;
        let name = args.peer.as_deref().unwrap_or_default();
        self.add(name, file_plan(args, &file_url(port), self.cores)?, Some(party), session)
    }

    fn folder(&self) -> &Path {
        self._folder.path()
    }

    fn add_gateway(
        &mut self,
        args: &ScenarioArgs,
        route: &str,
        node: u16,
        session: &Session,
    ) -> Result<(), String> {
        let ports = free_ports(5)?;
        let file = self.folder().join("config.yaml");
        std::fs::write(&file, config(&ports, args.worker))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = Command::new(gateway(args)?);
        command.args(["start", "-c", "config.yaml", "--data-dir", "data"]).env_remove("TIDEGATE_DATA_DIR");
        let mut party = Party::start("tidegate", command, self.folder(), self.cores.server)?;
        let mut route: Value = serde_json::from_str(route).map_err(|error| format!("the route: {error}"))?;
        route["upstream"]["nodes"] = json!({ format!("127.0.0.1:{node}"): 1 });
        let url = format!("http://127.0.0.1:{}/apisix/admin/routes/1", ports[1]);
        let mut put = plan(args, &url, self.cores)?;
        put.request = request("PUT", &put.target, &[format!("X-API-KEY: {ADMIN_KEY}")], route.to_string())?;
        until_answered(&put, Some(&mut party), session)?;
        let plan = plan(args, &format!("http://127.0.0.1:{}/hello", ports[0]), self.cores)?;
        self.add("tidegate", plan, Some(party), session)
    }

    fn add_proxy(
        &mut self,
        args: &ScenarioArgs,
        name: &str,
        node: u16,
        session: &Session,
    ) -> Result<(), String> {
        let port = free_ports(1)?[0];
        let fill = |text: &str| text.replace("PORT", &port.to_string()).replace("NODE", &node.to_string());
        let party = if name == "nginx" {
            let config = fill(include_str!("../../data/scenario/nginx.conf"));
            start_nginx("nginx", &config, self.folder(), self.cores.server)?
        } else {
            let file = self.folder().join("haproxy.cfg");
            std::fs::write(&file, fill(include_str!("../../data/scenario/haproxy.cfg")))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let mut command = Command::new(program("haproxy")?);
            command.args(["-db", "-f", "haproxy.cfg"]);
            Party::start("haproxy", command, self.folder(), self.cores.server)?
        };
        let plan = plan(args, &format!("http://127.0.0.1:{port}/hello"), self.cores)?;
        self.add(name, plan, Some(party), session)
    }

    fn add(
        &mut self,
        name: &str,
        plan: Plan,
        mut party: Option<Party>,
        session: &Session,
    ) -> Result<(), String> {
        let seen = until_answered(&plan, party.as_mut(), session)?;
        self.measured.push(Measured { name: name.to_owned(), plan, seen, party });
        Ok(())
    }

    /// Who ran on which core.
    pub(super) fn pinning(&self) -> Vec<Pin> {
        let mut pins = Vec::new();
        let mut add = |party: &str, core: Option<usize>| {
            pins.extend(core.map(|core| Pin { party: party.to_owned(), cpus: vec![core as u32] }));
        };
        add("client", self.cores.client);
        add("upstream", self.cores.node.filter(|_| self.node.is_some()));
        for measured in self.measured.iter().filter(|measured| measured.party.is_some()) {
            add(&measured.name, self.cores.server);
        }
        pins
    }

    /// How each was started.
    pub(super) fn command_lines(&self) -> Vec<(String, String)> {
        let node = self.node.iter().map(|node| ("upstream".to_owned(), node.command_line.clone()));
        let mut lines: Vec<_> = node.collect();
        lines.extend(self.measured.iter().filter_map(|measured| {
            Some((measured.name.clone(), measured.party.as_ref()?.command_line.clone()))
        }));
        lines
    }
}

/// The gateway's binary.
fn gateway(args: &ScenarioArgs) -> Result<PathBuf, String> {
    match &args.gateway {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe().map_err(|error| format!("this binary can't be found: {error}")),
    }
}

fn file_url(port: u16) -> String {
    format!("https://127.0.0.1:{port}{}", files::PATH)
}

/// As a browser asks, whatever the certificate.
fn file_plan(args: &ScenarioArgs, url: &str, cores: Cores) -> Result<Plan, String> {
    let mut plan = plan(args, url, cores)?;
    let lines = ["Accept-Encoding: gzip".to_owned()];
    plan.request = request("GET", &plan.target, &lines, String::new())?;
    if plan.target.scheme == Scheme::Https {
        let options = TlsOptions { insecure: true, cacert: None };
        plan.tls = Some(Tls::new(&plan.target.host, plan.protocol, &options)?);
    }
    Ok(plan)
}

fn start_nginx(name: &str, config: &str, folder: &Path, core: Option<usize>) -> Result<Party, String> {
    let file = folder.join(format!("{name}.conf"));
    std::fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(program("nginx")?);
    command.arg("-p").arg(folder).arg("-c").arg(&file).args(["-e", "stderr"]);
    Party::start(name, command, folder, core)
}

/// Loopback only, no access log; the bounds on a connection's life are out of the way, as they are for the peers.
fn config(ports: &[u16], workers: u16) -> String {
    let text = include_str!("../../data/scenario/gateway.json")
        .replace("ADMIN_KEY", ADMIN_KEY)
        .replace("WORKERS", &workers.to_string());
    ports
        .iter()
        .enumerate()
        .fold(text, |text, (at, port)| text.replace(&format!("PORT{at}"), &port.to_string()))
}

fn plan(args: &ScenarioArgs, url: &str, cores: Cores) -> Result<Plan, String> {
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    let endpoint = target.resolve(None)?.swap_remove(0);
    Ok(Plan {
        request: request("GET", &target, &[], String::new())?,
        endpoint,
        protocol: Protocol::Http1,
        tls: None,
        threads: 1,
        connections: usize::from(args.connections),
        depth: 1,
        duration: args.duration,
        warmup: args.warmup,
        timeout: Duration::from_secs(5),
        requests: None,
        pace: args.rate.map_or(Pace::Closed, Pace::Constant),
        check: None,
        cores: cores.client.into_iter().collect(),
        seed: 1,
        target,
    })
}

fn request(method: &str, target: &Target, lines: &[String], body: String) -> Result<Arc<Request>, String> {
    Request::new(method, &target.authority, &target.path, lines, Bytes::from(body), 1)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// Asks until the answer is a good one: a server needs a moment to start, and a route to be in effect.
fn until_answered(plan: &Plan, mut party: Option<&mut Party>, session: &Session) -> Result<Tally, String> {
    let begin = Instant::now();
    loop {
        let why = match session.ask_once(std::slice::from_ref(plan)) {
            Ok((_, seen)) if seen.errors_total() == 0 => return Ok(seen),
            Ok((_, seen)) => seen.faults().map(|(_, _, words)| words.to_owned()).collect(),
            Err(why) => why,
        };
        if let Some(ended) = party.as_mut().and_then(|party| party.ended()) {
            return Err(ended);
        }
        if session.interrupted() {
            return Err("ended before anything was measured".into());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("{}: not ready after {} s: {why}", plan.target, PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
