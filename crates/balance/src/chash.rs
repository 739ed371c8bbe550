//! Consistent hashing: the ring of lua-resty-balancer's `chash`, which is nginx's `hash ... consistent`.
//!
//! Each node has 160 points for each unit of its weight, after the weights of a tier are divided by their greatest
//! common divisor as APISIX does. A node's points are a chain: the checksum of its name followed by the point before,
//! in little endian, the first one following a zero. A key belongs to the first point that is not below its checksum;
//! a retry goes on along the ring. Where points of two nodes coincide the original's answer hangs on the order of a
//! hash table; here the heavier node stands first, then the one that the configuration names first.

use std::sync::Arc;

use crate::crc32;
use crate::node::Node;
use crate::pick::Open;
use crate::roundrobin::gcd;

/// Points of a node for one unit of weight; fixed in lua-resty-balancer and in nginx.
const POINTS_PER_WEIGHT: u32 = 160;

/// The weight, after division, that a tier may have in sum: 160 * 65,536 points of 8 bytes are 80 MiB, built once and
/// shared by all workers. Above it the weights are scaled down, where APISIX would ask for as much memory as it takes.
const WEIGHT_SUM_MAX: u64 = 1 << 16;

#[derive(Debug, Clone)]
pub(crate) struct Chash {
    /// Rising. Shared between workers: it never changes.
    ring: Arc<[Point]>,
    /// Where on the ring the hashes of each stretch begin, and one more for the end of the last. A stretch is what hashes
    /// with the same leading bits are: about [`POINTS_PER_STRETCH`] points, so that a search halves few times.
    stretches: Arc<[u32]>,
    /// How many bits of a hash don't tell its stretch.
    stretch_bits: u32,
}

/// How many points a stretch has on the average, at most. The stretches add an eighth at most to the memory of the ring.
const POINTS_PER_STRETCH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    hash: u32,
    member: u32,
}

impl Chash {
    /// The weights are above 0.
    pub(crate) fn new(members: &[Node<'_>]) -> Self {
        let weights = shares(members);
        let count: u64 = weights.iter().map(|&weight| u64::from(weight) * u64::from(POINTS_PER_WEIGHT)).sum();
        let mut ring = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for ((node, weight), member) in members.iter().zip(weights).zip(0..) {
            let name = crc32::State::new().feed(&ring_name(node));
            let mut hash = 0_u32;
            for _ in 0..weight * POINTS_PER_WEIGHT {
                hash = name.feed(&hash.to_le_bytes()).finish();
                ring.push(Point { hash, member });
            }
        }
        ring.sort_unstable();
        let (stretches, stretch_bits) = stretches(&ring);
        Self { ring: ring.into(), stretches, stretch_bits }
    }

    #[inline(never)] // Its registers and stack would be saved on the path of round robin too.
    pub(crate) fn pick(&self, open: &Open<'_>) -> Option<usize> {
        let hash = crc32::checksum(open.key());
        let start = self.position(hash);
        let first = self.ring.get(start).or(self.ring.first())?.member as usize;
        if open.has(first) { Some(first) } else { self.walk(start, open) }
    }

    /// The first point that is not below `hash`; the ring's end if there is none.
    fn position(&self, hash: u32) -> usize {
        let stretch = (hash >> self.stretch_bits) as usize;
        let (begin, end) = (self.stretches[stretch] as usize, self.stretches[stretch + 1] as usize);
        begin + self.ring[begin..end].partition_point(|point| point.hash < hash)
    }

    /// Goes along the ring from `start` to the first point whose member is open.
    #[cold]
    fn walk(&self, start: usize, open: &Open<'_>) -> Option<usize> {
        // Asked first, so that nobody goes round a ring of millions of points in vain.
        open.iter().next()?;
        let (before, after) = self.ring.split_at(start);
        after.iter().chain(before).map(|point| point.member as usize).find(|&member| open.has(member))
    }
}

/// [`Chash::stretches`] of this ring, and their bits.
fn stretches(ring: &[Point]) -> (Arc<[u32]>, u32) {
    // At least two, so that the shift is below 32.
    let count = (ring.len() / POINTS_PER_STRETCH).next_power_of_two().max(2);
    let bits = 32 - count.ilog2();
    let begin = |stretch: u64| ring.partition_point(|point| u64::from(point.hash >> bits) < stretch) as u32;
    ((0..=count as u64).map(begin).collect(), bits)
}

/// What the ring hashes for a node: its address with each colon, those of an IPv6 address as well, replaced by NUL.
fn ring_name(node: &Node<'_>) -> Vec<u8> {
    let bare_ipv6 = node.host.contains(':') && !node.host.starts_with('[');
    let address = if bare_ipv6 {
        format!("[{}]:{}", node.host, node.port)
    } else {
        format!("{}:{}", node.host, node.port)
    };
    address.bytes().map(|byte| if byte == b':' { 0 } else { byte }).collect()
}

/// The weights divided by their greatest common divisor, and scaled down to [`WEIGHT_SUM_MAX`] where that is exceeded
/// (by more than the least share of 1 which every node keeps).
fn shares(members: &[Node<'_>]) -> Vec<u32> {
    let divisor = members.iter().map(|node| node.weight).fold(0, gcd).max(1);
    let sum: u64 = members.iter().map(|node| u64::from(node.weight / divisor)).sum();
    let scale = |share: u32| {
        if sum <= WEIGHT_SUM_MAX {
            return share;
        }
        u32::try_from(u64::from(share) * WEIGHT_SUM_MAX / sum).unwrap_or(u32::MAX).max(1)
    };
    members.iter().map(|node| scale(node.weight / divisor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;

    fn chash(nodes: &[(&str, u16, u32)]) -> Chash {
        let members: Vec<_> =
            nodes.iter().map(|&(host, port, weight)| Node { host, port, weight, priority: 0 }).collect();
        Chash::new(&members)
    }

    /// The nodes in the order in which a request with `key` tries them.
    fn order(chash: &Chash, members: usize, key: &[u8]) -> Vec<usize> {
        let mut tried = Vec::new();
        while let Some(member) = testing::keyed(members, &tried, key, 0, |open| chash.pick(open)) {
            tried.push(member);
        }
        tried
    }

    /// Requests of each node, and a digest of all picks in turn, over the keys `key-0` to `key-99999`.
    fn spread(chash: &Chash, members: usize) -> (Vec<u32>, u64) {
        let mut counts = vec![0; members];
        let mut digest = 0_u64;
        for number in 0..100_000 {
            let key = format!("key-{number}");
            let member = testing::keyed(members, &[], key.as_bytes(), 0, |open| chash.pick(open)).unwrap();
            counts[member] += 1;
            digest = (digest * 31 + member as u64) % 4_294_967_291;
        }
        (counts, digest)
    }

    struct Reference {
        nodes: &'static [(&'static str, u16, u32)],
        points: usize,
        first: u32,
        last: u32,
        counts: &'static [u32],
        digest: u64,
        orders: [&'static [usize]; KEYS.len()],
    }

    const KEYS: [&[u8]; 9] = [
        b"",
        b"1",
        b"127.0.0.1",
        b"10.0.0.7",
        b"foo",
        b"/hello?device_id=1",
        b"device_id=42",
        b"a somewhat longer key, with spaces",
        b"\xff\x00\x01",
    ];

    const IPV4: &str = "127.0.0.1";

    /// Figures that lua-resty-balancer 0.05 gave under LuaJIT 2.1, called as APISIX's chash balancer calls it. Nodes
    /// of weight 0, which never reach this file, are left out.
    const REFERENCE: [Reference; 6] = [
        Reference {
            nodes: &[(IPV4, 1980, 1), (IPV4, 1981, 1), (IPV4, 1982, 1)],
            points: 480,
            first: 3_619_986,
            last: 4_286_551_731,
            counts: &[30_557, 35_201, 34_242],
            digest: 2_779_688_229,
            orders: [
                &[2, 0, 1],
                &[2, 1, 0],
                &[2, 0, 1],
                &[1, 0, 2],
                &[1, 2, 0],
                &[1, 2, 0],
                &[0, 1, 2],
                &[2, 0, 1],
                &[0, 2, 1],
            ],
        },
        Reference {
            nodes: &[(IPV4, 1985, 2), (IPV4, 1986, 2), (IPV4, 1987, 1)],
            points: 800,
            first: 6_468_803,
            last: 4_294_433_233,
            counts: &[38_483, 39_542, 21_975],
            digest: 3_919_197_811,
            orders: [
                &[1, 0, 2],
                &[2, 0, 1],
                &[0, 1, 2],
                &[1, 0, 2],
                &[1, 0, 2],
                &[2, 1, 0],
                &[0, 1, 2],
                &[1, 2, 0],
                &[1, 0, 2],
            ],
        },
        Reference {
            nodes: &[(IPV4, 1980, 1_000_000_000), (IPV4, 1981, 2_000_000_000), (IPV4, 1982, 1_000_000_000)],
            points: 640,
            first: 3_619_986,
            last: 4_286_551_731,
            counts: &[22_513, 52_828, 24_659],
            digest: 2_526_042_510,
            orders: [
                &[2, 0, 1],
                &[2, 1, 0],
                &[2, 1, 0],
                &[1, 0, 2],
                &[1, 2, 0],
                &[1, 2, 0],
                &[0, 1, 2],
                &[1, 2, 0],
                &[1, 0, 2],
            ],
        },
        Reference {
            nodes: &[(IPV4, 1979, 1000), (IPV4, 1980, 1)],
            points: 160_160,
            first: 16_934,
            last: 4_294_948_319,
            counts: &[99_912, 88],
            digest: 1_072_592_171,
            orders: [&[0, 1]; 9],
        },
        Reference {
            nodes: &[(IPV4, 1982, 4_000_000_000), (IPV4, 1980, 1_000_000_000)],
            points: 800,
            first: 3_619_986,
            last: 4_286_551_731,
            counts: &[78_783, 21_217],
            digest: 0,
            orders: [&[0, 1], &[0, 1], &[0, 1], &[0, 1], &[0, 1], &[0, 1], &[1, 0], &[0, 1], &[0, 1]],
        },
        Reference {
            nodes: &[
                ("foo.com", 80, 10),
                ("bar.example.org", 8443, 15),
                ("10.1.2.3", 80, 5),
                ("[::1]", 1980, 10),
                ("2001:db8::2", 1980, 10),
            ],
            points: 1600,
            first: 3_355_152,
            last: 4_294_747_889,
            counts: &[21_560, 29_246, 10_011, 19_884, 19_299],
            digest: 3_279_915_664,
            orders: [
                &[2, 3, 0, 4, 1],
                &[1, 4, 3, 0, 2],
                &[4, 1, 2, 3, 0],
                &[3, 0, 4, 1, 2],
                &[1, 4, 0, 3, 2],
                &[4, 1, 3, 0, 2],
                &[0, 2, 4, 1, 3],
                &[3, 0, 4, 2, 1],
                &[1, 3, 4, 0, 2],
            ],
        },
    ];

    #[test]
    fn answers_are_the_originals() {
        for case in &REFERENCE {
            let chash = chash(case.nodes);
            let members = case.nodes.len();
            let hashes = chash.ring.iter().map(|point| point.hash);
            assert_eq!(chash.ring.len(), case.points, "{:?}", case.nodes);
            assert_eq!((hashes.clone().min(), hashes.max()), (Some(case.first), Some(case.last)));
            for (key, expected) in KEYS.iter().zip(case.orders) {
                assert_eq!(order(&chash, members, key), expected, "{:?} {key:?}", case.nodes);
            }
            let (counts, digest) = spread(&chash, members);
            assert_eq!(counts, case.counts, "{:?}", case.nodes);
            // The original's digest holds where our member numbers are those of the original's run.
            assert!(case.digest == 0 || digest == case.digest, "{:?}: {digest}", case.nodes);
        }
    }

    #[test]
    fn every_hash_finds_the_first_point_that_is_not_below_it() {
        for count in [0, 1, 2, 3, 50] {
            let hosts: Vec<String> = (0..count).map(|node| format!("10.0.0.{node}")).collect();
            let nodes: Vec<_> = hosts.iter().map(|host| (host.as_str(), 80, 1)).collect();
            let chash = chash(&nodes);
            let near = chash
                .ring
                .iter()
                .flat_map(|point| [point.hash.saturating_sub(1), point.hash, point.hash.saturating_add(1)]);
            for hash in near.chain([0, 1, 1 << 31, u32::MAX]) {
                assert_eq!(
                    chash.position(hash),
                    chash.ring.partition_point(|point| point.hash < hash),
                    "{count}: {hash}"
                );
            }
        }
    }

    #[test]
    fn huge_weights_are_scaled_to_a_bounded_ring() {
        let ring = chash(&[(IPV4, 1, u32::MAX), (IPV4, 2, u32::MAX - 1), (IPV4, 3, 1)]).ring;
        assert!(ring.len() as u64 <= (WEIGHT_SUM_MAX + 3) * u64::from(POINTS_PER_WEIGHT), "{}", ring.len());
        assert_eq!(ring.iter().filter(|point| point.member == 2).count(), 160);
    }
}
