//! Ring beside aws-lc-rs, as the server's side of TLS 1.3 uses them: a record of 15 KiB encrypted, and a full
//! handshake.
//!
//! ```shell
//! cargo build --release -p tls --features aws-lc-rs --example providers
//! target/release/examples/providers 41
//! ```
//!
//! prints for each case the CPU time of this thread, both in turns (A B B A) for so many rounds; ratios are taken within
//! a round. One alone, so many times, for an instruction counter:
//!
//! ```shell
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured*' \
//!     target/release/examples/providers handshake-ecdsa ring 100
//! ```
//!
//! Valgrind has no AVX-512: what it counts of records is another path than that of processors which have it.

use rcgen::{CertificateParams, KeyPair};
use rustix::time::{ClockId, clock_gettime};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, NamedGroup, RootCertStore, ServerConfig, ServerConnection,
};
use std::hint::black_box;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

const RECORD: [u8; 15 * 1024] = [b'x'; 15 * 1024];

type Provide = fn() -> CryptoProvider;

const PROVIDERS: [(&str, Provide); 2] =
    [("ring", ring::default_provider), ("aws-lc-rs", aws_lc_rs::default_provider)];

/// What is measured, and how often in one turn: some milliseconds.
const CASES: [(&str, Case, u32); 5] = [
    ("record-aes128", Case::Record(CipherSuite::TLS13_AES_128_GCM_SHA256), 2000),
    ("record-aes256", Case::Record(CipherSuite::TLS13_AES_256_GCM_SHA384), 2000),
    ("record-chacha20", Case::Record(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256), 1000),
    ("handshake-ecdsa", Case::Handshake(Key::Ecdsa), 50),
    ("handshake-rsa", Case::Handshake(Key::Rsa), 20),
];

#[derive(Clone, Copy)]
enum Case {
    Record(CipherSuite),
    Handshake(Key),
}

#[derive(Clone, Copy)]
enum Key {
    /// On P-256.
    Ecdsa,
    /// Of 2048 bits.
    Rsa,
}

/// What both sides of a connection are told.
struct Ends {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// A connection in memory, with what either side has written and the other not yet read.
struct Wire {
    client: ClientConnection,
    server: ServerConnection,
    up: Vec<u8>,
    down: Vec<u8>,
}

type Failure = Box<dyn std::error::Error>;

#[allow(clippy::print_stdout, reason = "a program for the terminal")]
fn main() -> Result<ExitCode, Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [rounds] => compare(rounds.parse()?)?,
        [case, provider, count] => {
            let case = CASES.iter().find(|(name, ..)| *name == case).ok_or("no such case")?.1;
            let provide = PROVIDERS.iter().find(|(name, _)| *name == provider).ok_or("no such provider")?.1;
            let count = count.parse()?;
            println!("{:?} each", run(case, &ends(case, provide)?, count)? / count);
        }
        _ => {
            println!("usage: providers ROUNDS | CASE PROVIDER COUNT");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::print_stdout, reason = "a program for the terminal")]
fn compare(rounds: usize) -> Result<(), Failure> {
    println!("| case | ring, us | aws-lc-rs, us | aws-lc-rs / ring |\n|---|---|---|---|");
    for (name, case, count) in CASES {
        let [a, b] = PROVIDERS.map(|(_, provide)| ends(case, provide));
        let (a, b) = (a?, b?);
        let (mut times_a, mut times_b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The round before the first warms up.
        for round in 0..=rounds {
            let mut time_a = run(case, &a, count)?;
            let time_b = run(case, &b, count)? + run(case, &b, count)?;
            time_a += run(case, &a, count)?;
            if round > 0 {
                times_a.push(time_a.as_secs_f64() * 1e6 / f64::from(2 * count));
                times_b.push(time_b.as_secs_f64() * 1e6 / f64::from(2 * count));
                ratios.push(time_b.as_secs_f64() / time_a.as_secs_f64());
            }
        }
        let [low, middle, high] = quartiles(ratios);
        let [a, b] = [times_a, times_b].map(|times| quartiles(times)[1]);
        println!("| {name} | {a:.2} | {b:.2} | {middle:.2} ({low:.2}-{high:.2}) |");
    }
    Ok(())
}

/// CPU time for `count` of them.
fn run(case: Case, ends: &Ends, count: u32) -> Result<Duration, Failure> {
    let mut total = Duration::ZERO;
    match case {
        Case::Record(_) => {
            let mut wire = Wire::new(ends)?;
            while wire.step()?.is_some() {}
            let before = spent()?;
            measured_records(&mut wire, count)?;
            total += spent()? - before;
        }
        Case::Handshake(_) => {
            for _ in 0..count {
                let mut wire = Wire::new(ends)?;
                while let Some(time) = wire.step()? {
                    total += time;
                }
            }
        }
    }
    Ok(total)
}

#[inline(never)]
fn measured_records(wire: &mut Wire, count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        wire.server.writer().write_all(black_box(&RECORD))?;
        wire.down.clear();
        wire.server.write_tls(&mut wire.down)?;
        black_box(&wire.down);
    }
    Ok(())
}

/// What a server does with what its client sent.
#[inline(never)]
fn measured_step(server: &mut ServerConnection, up: &mut Vec<u8>, down: &mut Vec<u8>) -> Result<(), Failure> {
    let mut unread = up.as_slice();
    while !unread.is_empty() {
        server.read_tls(&mut unread)?;
        server.process_new_packets()?;
    }
    up.clear();
    while server.wants_write() {
        server.write_tls(down)?;
    }
    Ok(())
}

impl Wire {
    fn new(ends: &Ends) -> Result<Self, Failure> {
        Ok(Self {
            client: ClientConnection::new(Arc::clone(&ends.client), ServerName::try_from("localhost")?)?,
            server: ServerConnection::new(Arc::clone(&ends.server))?,
            up: Vec::new(),
            down: Vec::new(),
        })
    }

    /// Lets both sides have their say once: the CPU time that the server took; none when the client is silent.
    fn step(&mut self) -> Result<Option<Duration>, Failure> {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.up)?;
        }
        if self.up.is_empty() {
            return Ok(None);
        }
        let before = spent()?;
        measured_step(&mut self.server, &mut self.up, &mut self.down)?;
        let time = spent()? - before;
        let mut unread = self.down.as_slice();
        while !unread.is_empty() {
            self.client.read_tls(&mut unread)?;
            self.client.process_new_packets()?;
        }
        self.down.clear();
        Ok(Some(time))
    }
}

/// A server with what is measured; its client has ring either way.
fn ends(case: Case, provide: Provide) -> Result<Ends, Failure> {
    let (suite, key) = match case {
        Case::Record(suite) => (suite, Key::Ecdsa),
        Case::Handshake(key) => (CipherSuite::TLS13_AES_256_GCM_SHA384, key),
    };
    let (certificate, key) = certificate(key)?;
    let provider = |mut provider: CryptoProvider| {
        provider.cipher_suites.retain(|found| found.suite() == suite);
        provider.kx_groups.retain(|group| group.name() == NamedGroup::X25519);
        Arc::new(provider)
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut client = ClientConfig::builder_with_provider(provider(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::disabled();
    let server = ServerConfig::builder_with_provider(provider(provide()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(Ends { client: Arc::new(client), server: Arc::new(server) })
}

/// A certificate for `localhost` that vouches for itself. Ring makes no RSA keys; OpenSSL does.
fn certificate(key: Key) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Failure> {
    let pair = match key {
        Key::Ecdsa => KeyPair::generate()?,
        Key::Rsa => {
            let words = ["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
            KeyPair::from_pem(&String::from_utf8(Command::new("openssl").args(words).output()?.stdout)?)?
        }
    };
    let certificate = CertificateParams::new(["localhost".to_owned()])?.self_signed(&pair)?;
    let key = PrivatePkcs8KeyDer::from(pair.serialize_der());
    Ok((certificate.der().clone(), key.into()))
}

/// CPU time of this thread so far: what neighbours take is not in it.
fn spent() -> Result<Duration, Failure> {
    Ok(Duration::try_from(clock_gettime(ClockId::ThreadCPUTime))?)
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
