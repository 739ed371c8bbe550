//! What the yardsticks have in common: one thread, epoll (level-triggered), sockets that don't block.

pub mod link;

use std::io::{self, ErrorKind};
use std::net::TcpListener;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// Events taken from the kernel at once. nginx takes 512, tokio 1024; 256 is more than the 128 connections of the
/// largest comparison.
const EVENTS_MAX: usize = 256;

/// The listener's token. Those of connections are places in a list, so this one is never reached.
pub const LISTENER: u64 = u64::MAX;

/// Room for what the kernel reports at once.
pub type Events = [Event; EVENTS_MAX];

/// Room without events.
#[must_use]
pub fn no_events() -> Events {
    [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_MAX]
}

/// An epoll set that watches `listener`.
pub fn watching(listener: &TcpListener) -> io::Result<OwnedFd> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    Ok(epoll)
}

/// Waits for events, as many as there is room for.
pub fn wait<'e>(epoll: &OwnedFd, events: &'e mut Events) -> io::Result<&'e [Event]> {
    loop {
        match epoll::wait(epoll, &mut events[..], None) {
            Ok(count) => return Ok(&events[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The bytes that a non-blocking write took: none where it would have to wait.
pub fn accepted(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
