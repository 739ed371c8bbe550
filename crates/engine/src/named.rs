//! The client that a proxy in front of the gateway names.

use crate::buffers::Scratch;
use crate::exchange;
use crate::link::Link;
use plugin::Client;
use wire::{FieldLines, RequestView};

/// The client that the proxy at the other end names, with the lines that tell upstreams of it.
pub(crate) struct Named {
    pub(crate) client: Client,
    pub(crate) forwarded: FieldLines,
}

/// Who that is in this request. Boxed: most connections have no such proxy, and would carry its size with them.
#[inline]
pub(crate) fn named_by_proxy(link: &Link<'_>, scratch: &Scratch) -> Option<Box<Named>> {
    let view = RequestView { head: &scratch.head, bytes: &scratch.input[..scratch.head.length] };
    if link.config.real_ip.may_name(view) { named(link, view) } else { None }
}

#[inline(never)]
fn named(link: &Link<'_>, view: RequestView<'_>) -> Option<Box<Named>> {
    let client = link.client.named(link.config.real_ip.client(view)?);
    let forwarded = exchange::forwarded_lines(&client);
    Some(Box::new(Named { client, forwarded }))
}
