//! nginx as an upstream.

use crate::{Peer, Process, eventually, free_ports, program};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running nginx; killed when dropped, and its folder removed.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    /// Its port on 127.0.0.1.
    pub port: u16,
    dir: TempDir,
}

impl Nginx {
    /// Starts one on a free port, which answers `/hello` with `hello` and any other path with that path.
    pub fn start() -> Self {
        Self::on(free_ports::<1>()[0])
    }

    /// Starts one on `port`.
    pub fn on(port: u16) -> Self {
        Self::launch(port, "location / { return 200 \"$request_uri\"; }")
    }

    /// Starts one on a free port with these directives in its server. Its root is the folder [`Self::root`], and what it is
    /// asked stands in [`Self::seen`].
    pub fn with(server: &str) -> Self {
        Self::launch(free_ports::<1>()[0], &format!("root site; access_log seen seen; {server}"))
    }

    fn launch(port: u16, server: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("site")).unwrap();
        std::fs::write(dir.path().join("nginx.conf"), configuration(port, server)).unwrap();
        let nginx = program("nginx").expect("nginx is installed: `cargo xtask ci` says how");
        let mut process = Process::start(
            Command::new(nginx)
                .arg("-p")
                .arg(dir.path())
                .args(["-c", "nginx.conf", "-e", "stderr"])
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        );
        eventually("nginx answers", || {
            assert!(process.ended().is_none(), "nginx ended: its message is above");
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        assert_eq!(Peer::connect(port).get("/hello").text(), "hello\n");
        Self { process, port, dir }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder whose files it serves.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("site")
    }

    /// `STATUS METHOD PATH` of each request, as far as it has been logged.
    pub fn seen(&self) -> Vec<String> {
        std::fs::read_to_string(self.dir.path().join("seen"))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// One process, in the foreground, that writes into its own folder alone.
fn configuration(port: u16, server: &str) -> String {
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr warn;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n\
           log_format seen '$status $request_method $request_uri';\n\
           access_log off; default_type text/plain; keepalive_requests 100000;\n\
           client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
           uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
           server {{\n\
             listen 127.0.0.1:{port};\n\
             location = /hello {{ access_log off; return 200 \"hello\\n\"; }}\n\
             {server}\n\
           }}\n\
         }}\n"
    )
}
