//! What a pick is asked with, and what is told back when the node has answered.

use std::time::Duration;

/// One question to a balancer. The default asks for any node.
#[derive(Clone, Copy, Default)]
pub struct Pick<'a> {
    /// What `chash` hashes; APISIX falls back on `$remote_addr` where the configured key has no value. The other
    /// algorithms don't look at it.
    pub key: &'a [u8],
    /// Milliseconds since any instant that stays the same for the balancer's life. Only `ewma` looks at it.
    pub now_ms: u64,
    /// The nodes which this request has tried, never picked again. A few at most: it is searched from end to end.
    ///
    /// APISIX retries the only node of an upstream on itself; a caller that wants this leaves the node out.
    pub tried: &'a [usize],
    /// Says which nodes may be picked; `None`: all. Where health checks call every node unhealthy, APISIX picks among
    /// all of them; a caller that wants this passes `None`.
    pub usable: Option<&'a dyn Fn(usize) -> bool>,
}

/// How a node did with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Time that connecting took plus time to the end of the response.
    pub latency: Duration,
    /// No response came, so that `latency` says nothing about how quick the node is.
    pub failed: bool,
}

/// A [`Pick`] as one tier sees it: in the tier's own numbering.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    pick: &'a Pick<'a>,
    /// The upstream's index of each member of the tier.
    nodes: &'a [u32],
}

impl<'a> Open<'a> {
    pub(crate) fn new(pick: &'a Pick<'a>, nodes: &'a [u32]) -> Self {
        Self { pick, nodes }
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        self.pick.key
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.pick.now_ms
    }

    /// How many members the tier has, those that may not be picked included.
    pub(crate) fn members(&self) -> usize {
        self.nodes.len()
    }

    /// Whether this member may be picked.
    #[inline]
    pub(crate) fn has(&self, member: usize) -> bool {
        (self.pick.tried.is_empty() && self.pick.usable.is_none()) || self.allows(member)
    }

    /// The answer to [`Self::has`] where something is closed.
    #[inline(never)]
    fn allows(&self, member: usize) -> bool {
        let node = self.nodes[member] as usize;
        !self.pick.tried.contains(&node) && self.pick.usable.is_none_or(|usable| usable(node))
    }

    /// The members that may be picked.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&member| self.has(member))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Open, Pick};

    /// Runs `f` with `members` members, all open but the `tried` ones.
    pub(crate) fn open<R>(members: usize, tried: &[usize], f: impl FnOnce(&Open<'_>) -> R) -> R {
        keyed(members, tried, b"", 0, f)
    }

    /// As [`open`], with a key and a time.
    pub(crate) fn keyed<R>(
        members: usize,
        tried: &[usize],
        key: &[u8],
        now_ms: u64,
        f: impl FnOnce(&Open<'_>) -> R,
    ) -> R {
        let nodes: Vec<u32> = (0..).take(members).collect();
        f(&Open::new(&Pick { key, now_ms, tried, usable: None }, &nodes))
    }
}
