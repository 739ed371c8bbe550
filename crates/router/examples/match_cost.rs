//! Builds a router of N routes and matches in a loop, so that an instruction counter can tell what one match costs:
//!
//! ```shell
//! cargo build --release -p router --example match_cost
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*match_all*' \
//!     target/release/examples/match_cost uri 100000 10000
//! ```
//!
//! Shapes: `uri` has two routes in three of `/service-{i}/resource/*`, the third exact, none with a host; `host` puts
//! each route under `{i}.example.com` or `*.{i}.example.com`.

use model::var::{Var, VarSource};
use router::{Conditions, Mode, RequestFacts, RouteEntry, Router};
use std::borrow::Cow;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Instant;

struct Request {
    host: String,
    path: String,
}

impl VarSource for Request {
    fn var(&self, _: &Var) -> Option<Cow<'_, [u8]>> {
        None
    }
}

impl RequestFacts for Request {
    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn remote_ip(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

fn entry(i: usize, with_hosts: bool) -> RouteEntry<usize> {
    let path = if i % 3 == 2 { format!("/service-{i}/status") } else { format!("/service-{i}/resource/*") };
    let host = if i.is_multiple_of(2) { format!("{i}.example.com") } else { format!("*.{i}.example.com") };
    RouteEntry {
        id: i.to_string(),
        hosts: if with_hosts { vec![host] } else { Vec::new() },
        paths: vec![path],
        priority: 0,
        conditions: Conditions::default(),
        payload: i,
    }
}

fn request(i: usize) -> Request {
    let path = if i % 3 == 2 { format!("/service-{i}/status") } else { format!("/service-{i}/resource/42") };
    let host = if i.is_multiple_of(2) { format!("{i}.example.com") } else { format!("www.{i}.example.com") };
    Request { host, path }
}

#[inline(never)]
fn match_all(router: &Router<usize>, requests: &[Request], iterations: usize) -> usize {
    (0..iterations).filter(|at| black_box(router).find(&requests[at % requests.len()]).is_some()).count()
}

#[allow(clippy::print_stdout, reason = "a program for the terminal")]
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let shape = args.next().unwrap_or_default();
    let mut number = || args.next().and_then(|arg| arg.parse::<usize>().ok()).filter(|&number| number > 0);
    let (Some(routes), Some(iterations)) = (number(), number()) else {
        println!("usage: match_cost uri|host ROUTES ITERATIONS");
        return ExitCode::FAILURE;
    };
    let mut router = Router::new(Mode::HostUri);
    for i in 0..routes {
        router.insert(entry(i, shape == "host"));
    }
    // A thousand routes spread over all of them.
    let step = routes.div_ceil(1000);
    let requests: Vec<_> = (0..routes).step_by(step).map(request).collect();

    let snapshot = router.clone();
    let started = Instant::now();
    router.insert(entry(routes, shape == "host"));
    let insert = started.elapsed();

    let started = Instant::now();
    let found = match_all(&snapshot, &requests, iterations);
    println!(
        "{found} of {iterations} matched in {:?}; one insert beside a running snapshot: {insert:?}",
        started.elapsed()
    );
    ExitCode::SUCCESS
}
