//! An OpenID Connect provider: the example of zitadel's library, as Go builds it.

use crate::{Message, Peer, Process, eventually, program};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The package and its version.
const PACKAGE: &str = "github.com/zitadel/oidc/v3/example/server@v3.51.17";

/// A running provider on port 9998; killed when dropped. It listens on all addresses: its test has a network of its own.
#[derive(Debug)]
pub struct OidcProvider {
    _process: Process,
}

impl OidcProvider {
    /// The provider's program, built at the first use in a checkout. `None` where there is no Go, or it can't build it: then
    /// the tests that need it are skipped.
    #[expect(clippy::print_stdout, reason = "says why a test did nothing")]
    pub fn program() -> Option<&'static Path> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        let found = PROGRAM.get_or_init(|| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
            let built = folder.join("server");
            if built.is_file() {
                return Some(built);
            }
            std::fs::create_dir_all(&folder).ok()?;
            let go = program("go")
                .or_else(|| Some(PathBuf::from("/usr/local/go/bin/go")).filter(|go| go.is_file()))?;
            let made = Command::new(go)
                .args(["install", PACKAGE])
                .env("GOBIN", folder.canonicalize().ok()?)
                .stdin(Stdio::null())
                .output()
                .ok()?;
            (made.status.success() && built.is_file()).then_some(built)
        });
        if found.is_none() {
            println!("skipped: there is no Go that builds {PACKAGE}");
        }
        found.as_deref()
    }

    /// Starts one, whose clients `web` and `api` with the secret `secret` come back to `redirect_uri`.
    pub fn start(program: &Path, redirect_uri: &str) -> Self {
        let mut process = Process::start(
            Command::new(program)
                .env("PORT", "9998")
                .env("REDIRECT_URI", redirect_uri)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        eventually("the provider answers", || {
            assert!(process.ended().is_none(), "the provider has ended");
            std::thread::sleep(Duration::from_millis(20));
            let stream = std::net::TcpStream::connect(("127.0.0.1", 9998)).ok()?;
            let mut peer = Peer::new(stream);
            peer.try_send(b"GET /.well-known/openid-configuration HTTP/1.1\r\nHost: localhost:9998\r\n\r\n")
                .ok()?;
            peer.try_response("GET").ok().filter(|answer: &Message| answer.status() == 200)
        });
        Self { _process: process }
    }
}
