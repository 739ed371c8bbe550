//! `discovery_type: dns`: every address of a name is a node; SRV records give ports, weights and priorities as well.

use crate::config::{DnsConfig, DnsServers, Turn};
use crate::names;
use crate::{Service, Source};
use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{RData, RecordType};
use model::resource::Node;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// An answer is kept this long at least, so that a TTL of 0 is no endless stream of questions.
const KEPT_MIN: Duration = Duration::from_secs(1);

/// And this long at most: a service that nobody wants any more is forgotten after an hour.
const KEPT_MAX: Duration = Duration::from_secs(3600);

/// After a failure a name is asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Addresses of one SRV record that are used, so that weights stay numbers: 2^16 * 64 * (a multiple of 64 at most).
const ADDRESSES_MAX: usize = 64;

/// Asks for names.
#[derive(Debug)]
pub(crate) struct Dns {
    resolver: TokioResolver,
    order: Vec<Turn>,
}

/// What a name came to.
struct Found {
    nodes: Vec<Node>,
    until: Instant,
    by: Turn,
}

impl Dns {
    pub(crate) fn new(config: &DnsConfig) -> io::Result<Self> {
        let resolver = match &config.servers {
            DnsServers::Listed(servers) => names::asking(servers)?,
            DnsServers::InFile(file) => names::asking_as_in(file)?,
        };
        Ok(Self { resolver, order: config.order.clone() })
    }

    async fn keep_up(self: Arc<Self>, service: Weak<Service>) {
        let Some((host, port)) = service.upgrade().map(|service| split(service.name())) else { return };
        let mut last = None;
        loop {
            let found = self.look_up(&host, port, last).await;
            let Some(service) = service.upgrade() else { return };
            let pause = match found {
                Ok(mut found) => {
                    last = Some(found.by);
                    // Servers answer in another order each time, which says nothing.
                    found
                        .nodes
                        .sort_by(|a, b| (-a.priority, &a.host, a.port).cmp(&(-b.priority, &b.host, b.port)));
                    service.heard(found.nodes);
                    found.until.saturating_duration_since(Instant::now()).clamp(KEPT_MIN, KEPT_MAX)
                }
                Err(why) => {
                    service.heard_nothing(&why);
                    RETRY_AFTER
                }
            };
            drop(service);
            tokio::time::sleep(pause).await;
        }
    }

    /// Asks in the order that is configured, until something is found.
    async fn look_up(&self, host: &str, port: Option<u16>, last: Option<Turn>) -> Result<Found, String> {
        let mut why = "no kind of record is asked for".to_owned();
        for turn in &self.order {
            let by = match turn {
                Turn::Last => last,
                Turn::Cname => None,
                asked => Some(*asked),
            };
            let found = match by {
                Some(Turn::Srv) => self.services(host, port).await,
                Some(Turn::A) => self.addresses(host, RecordType::A, port).await,
                Some(Turn::Aaaa) => self.addresses(host, RecordType::AAAA, port).await,
                _ => continue,
            };
            match found {
                Ok(found) => return Ok(found),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    async fn addresses(&self, host: &str, kind: RecordType, port: Option<u16>) -> Result<Found, String> {
        let (ips, until) = self.ips(host, kind).await?;
        let node = |ip: IpAddr| Node { host: ip.to_string(), port, weight: 1, priority: 0 };
        let by = if kind == RecordType::A { Turn::A } else { Turn::Aaaa };
        Ok(Found { nodes: ips.into_iter().map(node).collect(), until, by })
    }

    async fn services(&self, host: &str, port: Option<u16>) -> Result<Found, String> {
        let answer = self.ask(host, RecordType::SRV).await?;
        let mut until = answer.valid_until();
        let mut targets = Vec::new();
        for record in answer.answers() {
            let RData::SRV(record) = &record.data else { continue };
            let name = record.target.to_string();
            let found = match self.ips(&name, RecordType::A).await {
                Ok(found) => Ok(found),
                Err(_) => self.ips(&name, RecordType::AAAA).await,
            };
            match found {
                Ok((ips, ips_until)) => {
                    until = until.min(ips_until);
                    targets.push((record.clone(), ips));
                }
                // The others serve without it.
                Err(why) => tracing::warn!(host, target = name, "a target of SRV records is left out: {why}"),
            }
        }
        if targets.is_empty() {
            return Err(format!("no SRV record of {host} leads to an address"));
        }
        Ok(Found { nodes: spread(&targets, port), until, by: Turn::Srv })
    }

    async fn ips(&self, host: &str, kind: RecordType) -> Result<(Vec<IpAddr>, Instant), String> {
        let answer = self.ask(host, kind).await?;
        let ips: Vec<IpAddr> = answer.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
        if ips.is_empty() {
            return Err(format!("{host} has no {kind} record"));
        }
        Ok((ips, answer.valid_until()))
    }

    async fn ask(&self, host: &str, kind: RecordType) -> Result<Lookup, String> {
        self.resolver.lookup(host, kind).await.map_err(|error| error.to_string())
    }
}

impl Source for Dns {
    fn follow(self: Arc<Self>, service: Weak<Service>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.keep_up(service))
    }
}

/// A service's name, and the port that it may end in.
fn split(name: &str) -> (String, Option<u16>) {
    match name.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) if port != 0 => (host.to_owned(), Some(port)),
        _ => (name.to_owned(), None),
    }
}

/// The nodes of SRV records with the addresses of their targets, which share the record's weight. All weights are
/// multiplied by one number, so that the shares are whole. A weight of 0 is a small chance (RFC 2782), here 1.
fn spread(targets: &[(SRV, Vec<IpAddr>)], port: Option<u16>) -> Vec<Node> {
    let counts = targets.iter().map(|(_, ips)| ips.len().min(ADDRESSES_MAX) as u64);
    let whole =
        counts.fold(1, |multiple, count| multiple / gcd(multiple, count) * count).min(u64::from(u16::MAX));
    let mut nodes = Vec::new();
    for (record, ips) in targets {
        let ips = &ips[..ips.len().min(ADDRESSES_MAX)];
        let weight = u64::from(record.weight.max(1)) * whole / ips.len() as u64;
        nodes.extend(ips.iter().map(|ip| Node {
            host: ip.to_string(),
            port: port.or(Some(record.port).filter(|port| *port != 0)),
            weight: u32::try_from(weight.max(1)).unwrap_or(u32::MAX),
            // Lower ones come first in DNS, higher ones here.
            priority: -i32::from(record.priority),
        }));
    }
    nodes
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::proto::rr::Name;

    #[test]
    fn a_port_may_follow_the_name() {
        for (name, host, port) in [
            ("a.example", "a.example", None),
            ("a.example:1980", "a.example", Some(1980)),
            ("a.example:0", "a.example:0", None),
            ("a.example:x", "a.example:x", None),
        ] {
            assert_eq!(split(name), (host.to_owned(), port), "{name}");
        }
    }

    /// `(priority, weight, port, addresses)` and `(address, port, weight, priority)`.
    type Case<'a> =
        (&'a [(u16, u16, u16, &'a [&'a str])], Option<u16>, &'a [(&'a str, Option<u16>, u32, i32)]);

    #[test]
    fn addresses_share_the_weight_of_their_record() {
        let cases: &[Case<'_>] = &[
            (
                &[(10, 60, 1980, &["1.1.1.1"]), (20, 20, 1981, &["1.1.1.2", "1.1.1.3"])],
                None,
                &[
                    ("1.1.1.1", Some(1980), 120, -10),
                    ("1.1.1.2", Some(1981), 20, -20),
                    ("1.1.1.3", Some(1981), 20, -20),
                ],
            ),
            (&[(0, 0, 0, &["::1"])], None, &[("::1", None, 1, 0)]),
            (&[(0, 5, 1, &["::1"])], Some(8848), &[("::1", Some(8848), 5, 0)]),
        ];
        for (records, port, expected) in cases {
            let target = |&(priority, weight, port, ips): &(u16, u16, u16, &[&str])| {
                let ips = ips.iter().map(|ip| ip.parse().expect("an address")).collect();
                (SRV::new(priority, weight, port, Name::root()), ips)
            };
            let targets: Vec<_> = records.iter().map(target).collect();
            let nodes = spread(&targets, *port);
            let shown: Vec<_> = nodes.iter().map(|n| (&*n.host, n.port, n.weight, n.priority)).collect();
            assert_eq!(shown, *expected);
        }
    }
}
