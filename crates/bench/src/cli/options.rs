//! The options of a run, and what they mean.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;

use super::outcome::{Refusal, failure, usage};
use crate::http::{BodyCheck, Request, Tls, TlsOptions};
use crate::load::{Endpoint, Pace, Plan, Protocol, Scheme, Target};
use crate::sla::{Condition, Over};

/// Requests per second beyond which a rate is a slip of the pen: more than any machine sends.
const RATE_MAX: f64 = 100e6;

/// Connections beyond what one client address and one server port can have.
const CONNECTIONS_MAX: usize = 65_535;

/// A run against a URL.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// What to ask for: http or https
    #[arg(required = true, value_name = "URL")]
    pub url: Option<String>,
    /// Threads, each with its own connections; one a core is the most that makes sense
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Connections over all threads; with --sla a range such as 16..1024 is searched
    #[arg(short, long, value_name = "N", default_value = "10")]
    pub connections: String,
    /// How long to measure; the length of each probe with --sla
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,
    /// How long to send before that without measuring
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// Stop after so many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// How long a connection and an answer may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Repeat the run so many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
    /// The request's method
    #[arg(short, long, default_value = "GET")]
    pub method: String,
    /// A request header; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The request's body
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// A file with the request's body
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// Open loop: send so many requests per second, whatever the server does, and count latency from the moment at
    /// which each was to be sent
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
    /// Open loop with random gaps, as of many independent clients
    #[arg(long)]
    pub poisson: bool,
    /// Requests under way at a time on each connection: pipelined in HTTP/1.1, streams in HTTP/2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub pipeline: u16,
    /// Speak HTTP/2
    #[arg(long)]
    pub http2: bool,
    /// Connect to this unix socket, whatever host the URL names
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Take any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Trust the certificates in this PEM file, instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// Every body must have so many bytes
    #[arg(long, value_name = "BYTES")]
    pub check_length: Option<u64>,
    /// Every body must have this SHA-256
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    pub check_sha256: Option<Sha256>,
    /// A condition that the run must meet, such as 'p99<=5ms', 'errors<=0.1%' or 'rps>=10000'; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub threshold: Vec<Condition>,
    /// Search for the highest rate, or number of connections, at which this holds; may be given several times
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["rate", "requests", "runs"])]
    pub sla: Vec<Condition>,
    /// Cores for the threads, such as 1 or 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Of the random gaps
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the distribution of latencies in detail
    #[arg(long)]
    pub latency: bool,
    /// Print a result file as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the result file here
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What reports call the server
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Show nothing while it runs
    #[arg(short, long)]
    pub quiet: bool,
}

/// A SHA-256 as the command line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha256([u8; 32]);

impl LoadArgs {
    /// How the load is paced.
    pub(super) fn pace(&self) -> Result<Pace, Refusal> {
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= RATE_MAX) => {
                Err(usage(format!("--rate {rate} is not between 0 and {RATE_MAX:.0} requests per second")))
            }
            Some(rate) if self.poisson => Ok(Pace::Poisson(rate)),
            Some(rate) => Ok(Pace::Constant(rate)),
            None if self.poisson && self.sla.is_empty() => Err(usage("--poisson needs --rate")),
            None => Ok(Pace::Closed),
        }
    }

    /// What a search varies; an error where there are several numbers of connections and no search.
    pub(super) fn over(&self) -> Result<(Over, usize), Refusal> {
        let number = |text: &str| match text.parse() {
            Ok(number) if (1..=CONNECTIONS_MAX).contains(&number) => Ok(number),
            _ => Err(usage(format!("--connections {text:?} is no number from 1 to {CONNECTIONS_MAX}"))),
        };
        match self.connections.split_once("..") {
            None => Ok((Over::Rate { poisson: self.poisson }, number(&self.connections)?)),
            Some(_) if self.sla.is_empty() => Err(usage("a range of connections needs --sla to search for")),
            Some((lowest, highest)) => {
                let (lowest, highest) = (number(lowest)?, number(highest)?);
                if lowest >= highest {
                    return Err(usage(format!("--connections {lowest}..{highest} is no range that rises")));
                }
                Ok((Over::Connections(lowest, highest), lowest))
            }
        }
    }

    /// The plan for each of the server's addresses, in the order in which they are to be tried.
    pub(super) fn plans(&self) -> Result<Vec<Plan>, Refusal> {
        let target = Target::parse(self.url.as_deref().unwrap_or_default())
            .map_err(|error| usage(error.to_string()))?;
        let protocol = if self.http2 { Protocol::Http2 } else { Protocol::Http1 };
        let (_, connections) = self.over()?;
        if connections < usize::from(self.threads) {
            return Err(usage(format!(
                "{connections} connections can't be shared by {} threads: each needs one",
                self.threads
            )));
        }
        if self.duration.is_zero() || self.timeout.is_zero() {
            return Err(usage("the duration and the timeout must be longer than 0"));
        }
        let plan = Plan {
            tls: self.tls(&target, protocol)?,
            request: Arc::new(self.request(&target)?),
            endpoint: Endpoint::Unix(PathBuf::new()),
            protocol,
            threads: usize::from(self.threads),
            connections,
            depth: usize::from(self.pipeline),
            duration: self.duration,
            warmup: self.warmup,
            timeout: self.timeout,
            requests: self.requests,
            pace: self.pace()?,
            check: self.check(),
            cores: self.cpus.clone(),
            seed: self.seed,
            target,
        };
        let endpoints = plan.target.resolve(self.unix.as_deref()).map_err(failure)?;
        Ok(endpoints.into_iter().map(|endpoint| Plan { endpoint, ..plan.clone() }).collect())
    }

    fn tls(&self, target: &Target, protocol: Protocol) -> Result<Option<Tls>, Refusal> {
        if target.scheme == Scheme::Http {
            return match self.insecure || self.cacert.is_some() {
                true => Err(usage("--insecure and --cacert are for https URLs")),
                false => Ok(None),
            };
        }
        let options = TlsOptions { insecure: self.insecure, cacert: self.cacert.clone() };
        Tls::new(&target.host, protocol, &options).map(Some).map_err(failure)
    }

    fn request(&self, target: &Target) -> Result<Request, Refusal> {
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Bytes::from(text.clone().into_bytes()),
            (None, Some(path)) => std::fs::read(path)
                .map(Bytes::from)
                .map_err(|error| failure(format!("the body {} can't be read: {error}", path.display())))?,
            (None, None) => Bytes::new(),
        };
        let depth = usize::from(self.pipeline);
        Request::new(&self.method, &target.authority, &target.path, &self.headers, body, depth)
            .map_err(|error| usage(error.to_string()))
    }

    fn check(&self) -> Option<BodyCheck> {
        let check =
            BodyCheck { length: self.check_length, sha256: self.check_sha256.map(|Sha256(bytes)| bytes) };
        (check != BodyCheck::default()).then_some(check)
    }
}

/// `10s`, `500ms`, `1.5m`, `1h`; a plain number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    // Longer is a mistyped unit, and sums of such times stay in range.
    const MAX: Duration = Duration::from_secs(31 * 86_400);
    let time = stdx::units::fractional_duration(text)?;
    if time > MAX { Err(format!("{text} is longer than 31 days")) } else { Ok(time) }
}

fn parse_sha256(text: &str) -> Result<Sha256, String> {
    BodyCheck::parse_sha256(text).map(Sha256).ok_or_else(|| "64 hexadecimal digits are needed".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn plans(line: &str) -> Result<Vec<Plan>, String> {
        let cli = Cli::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
            .map_err(|error| error.to_string())?;
        cli.load.plans().map_err(|refusal| format!("{refusal:?}"))
    }

    #[test]
    fn times_are_read_with_and_without_unit() {
        for (text, ms) in
            [("10s", 10_000), ("10", 10_000), ("250ms", 250), ("1.5m", 90_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "10x", "1e99h", "ten"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrks_way_of_writing_options_is_understood() {
        let plans = plans("http://127.0.0.1:1/x -t2 -c16 -d10s --latency -H X-A:1").expect("valid");
        let plan = &plans[0];
        assert_eq!((plan.threads, plan.connections, plan.duration.as_secs()), (2, 16, 10));
        assert!(plan.request.bytes(1).starts_with(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-A: 1\r\n"));
    }

    #[test]
    fn options_that_make_no_sense_are_refused_with_the_reason() {
        for (line, why) in [
            ("", "URL"),
            ("ftp://a", "scheme"),
            ("http://127.0.0.1 -t 4 -c 2", "shared by 4 threads"),
            ("http://127.0.0.1 -c 0", "--connections"),
            ("http://127.0.0.1 -c 16..32", "needs --sla"),
            ("http://127.0.0.1 -c 32..16 --sla p99<=5ms", "no range"),
            ("http://127.0.0.1 --rate 0", "--rate"),
            ("http://127.0.0.1 --poisson", "--rate"),
            ("http://127.0.0.1 -d 0s", "longer than 0"),
            ("http://127.0.0.1 --insecure", "https"),
            ("http://127.0.0.1 --threshold p99<=5", "unit"),
            ("http://127.0.0.1 --check-sha256 abc", "64 hexadecimal"),
            ("http://127.0.0.1 -H nocolon", "colon"),
            ("http://127.0.0.1 --body a --body-file b", "cannot be used with"),
            ("http://127.0.0.1 --rate 5 --sla p99<=5ms", "cannot be used with"),
        ] {
            let error = plans(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
