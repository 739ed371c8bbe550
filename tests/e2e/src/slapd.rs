//! OpenLDAP's own directory server.

use crate::{Process, eventually, free_ports, program};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running directory; killed when dropped, and its folder removed.
#[derive(Debug)]
pub struct Slapd {
    process: Process,
    dir: TempDir,
    arguments: Vec<String>,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its port for TLS from the start, where it was given a certificate.
    pub tls_port: u16,
}

impl Slapd {
    /// Whether the tests that need a directory can run. They are skipped without one; `cargo xtask ci` installs it.
    #[expect(clippy::print_stdout, reason = "says why a test did nothing")]
    pub fn is_installed() -> bool {
        let installed = program("slapd").is_some() && program("slapadd").is_some();
        if !installed {
            println!("skipped: slapd is not installed");
        }
        installed
    }

    /// Starts one for `dc=example,dc=org` with these entries, in LDIF. `cn=admin,dc=example,dc=org` has the password `secret`.
    /// With a certificate and its key, as files, it speaks TLS on a second port.
    pub fn start(ldif: &str, certificate: Option<(&str, &str)>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(path("db")).unwrap();
        let tls = certificate.map_or(String::new(), |(certificate, key)| {
            format!("TLSCertificateFile {certificate}\nTLSCertificateKeyFile {key}\n")
        });
        let conf = format!(
            "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\npidfile {}\nmodulepath /usr/lib/ldap\n\
             moduleload back_mdb\n{tls}database mdb\nsuffix \"dc=example,dc=org\"\n\
             rootdn \"cn=admin,dc=example,dc=org\"\nrootpw secret\ndirectory {}\nmaxsize 10485760\n",
            path("pid"),
            path("db"),
        );
        std::fs::write(path("slapd.conf"), conf).unwrap();
        std::fs::write(path("entries.ldif"), ldif).unwrap();
        let added = Command::new(program("slapadd").unwrap())
            .args(["-f", &path("slapd.conf"), "-l", &path("entries.ldif")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let [port, tls_port] = free_ports::<2>();
        let mut urls = format!("ldap://127.0.0.1:{port}");
        if certificate.is_some() {
            urls.push_str(&format!(" ldaps://127.0.0.1:{tls_port}"));
        }
        let arguments = ["-h", &urls, "-f", &path("slapd.conf"), "-d", "0"].map(str::to_owned).to_vec();
        let mut server = Self { process: spawn(&arguments), dir, arguments, port, tls_port };
        server.until_ready();
        server
    }

    /// Ends it and starts it again: connections to it are closed.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = spawn(&self.arguments);
        self.until_ready();
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process.kill();
    }

    fn until_ready(&mut self) {
        let port = self.port;
        let dir = self.dir.path().to_path_buf();
        eventually("slapd listens", || {
            assert!(self.process.ended().is_none(), "slapd has ended: {}", dir.display());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }
}

fn spawn(arguments: &[String]) -> Process {
    Process::start(
        Command::new(program("slapd").unwrap())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
}
