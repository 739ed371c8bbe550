//! The packaged service: the unit's own command lines, as systemd would run them.

use e2e::{Peer, Process, binary, free_ports};
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const UNIT: &str = include_str!("../../../../packaging/systemd/tidegate.service");
const CONFIG: &str = include_str!("../../../../packaging/config.yaml");

/// The arguments of `ExecStart` and its like, with the folders of this test.
fn arguments(key: &str, folder: &Path) -> Vec<String> {
    let line =
        UNIT.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix("=/usr/bin/tidegate ")).unwrap();
    let words = line.split(' ');
    let folder = folder.display();
    words
        .map(|word| {
            word.replace("/etc/tidegate", &format!("{folder}/etc"))
                .replace("/var/lib/tidegate", &format!("{folder}/state"))
        })
        .collect()
}

fn run(key: &str, folder: &Path) -> std::process::Output {
    Command::new(binary()).args(arguments(key, folder)).output().unwrap()
}

fn received(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn the_unit_starts_reloads_and_stops_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for name in ["etc", "state", "logs"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let [port, admin, control, metrics, status] = free_ports();
    let ports = format!(
        "node_listen: [{{ip: 127.0.0.1, port: {port}}}]\n  control: {{port: {control}}}\n  status: {{port: {status}}}"
    );
    let config = CONFIG
        .replace("/var/log/tidegate", &folder.join("logs").display().to_string())
        .replace("node_listen: 9080", &ports)
        .replace("port: 9180", &format!("port: {admin}"));
    let config = format!("{config}\nplugin_attr: {{prometheus: {{export_addr: {{port: {metrics}}}}}}}\n");
    let file = folder.join("etc/config.yaml");
    std::fs::write(&file, &config).unwrap();
    let tested = run("ExecStartPre", folder);
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));

    let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut start = Command::new(binary());
    start.args(arguments("ExecStart", folder)).env("NOTIFY_SOCKET", folder.join("notify"));
    let mut gateway = Process::start(start.stdout(Stdio::null()).stderr(Stdio::null()));
    assert_eq!(received(&socket), "READY=1\n");
    assert_eq!(Peer::connect(port).get("/").status(), 404, "ready is ready");

    let reloaded = run("ExecReload", folder);
    assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
    std::fs::write(&file, "apisix: {node_listen: nowhere}\n").unwrap();
    assert!(!run("ExecReload", folder).status.success(), "a rejected configuration fails the reload");
    assert_eq!(Peer::connect(port).get("/").status(), 404, "and the gateway goes on");

    assert!(UNIT.contains("KillSignal=SIGQUIT\n"));
    gateway.signal(Signal::QUIT);
    assert_eq!(received(&socket), "STOPPING=1\n");
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(folder.join("logs/error.log").is_file() && folder.join("logs/access.log").is_file());
}
