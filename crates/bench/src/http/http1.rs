//! The loop of a thread that speaks HTTP/1.1: one `recv` and one `send` per answer, and `epoll` told of each connection
//! once, when it is made.
//!
//! Readiness is edge-triggered: a level-triggered socket would be asked again at the next wait, although its one answer
//! has been read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::connection::{Connection, Flight, Received, State};
use super::response::Scanner;
use crate::load::{ErrorKind, Fault, Nanos, Turn, nanos, now};

/// What one `recv` can take: the largest body that comes in one piece from loopback.
const BUFFER: usize = 64 * 1024;

/// Events taken by one wait.
const EVENTS_MAX: usize = 256;

/// How often timeouts, lost connections and the flag that ends the run are looked at.
const SWEEP: Nanos = 100_000_000;

/// What a connection that has sent everything waits for.
const READING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// What the timer's events carry: no connection's number.
const TIMER: u64 = u64::MAX;

/// A slot for a request that waits for its start in an open loop.
#[derive(Debug, Clone, Copy)]
struct Slot {
    connection: u32,
    since: Nanos,
}

struct Loop<'r> {
    turn: Turn<'r>,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    /// When a connection that is not there is to be made again.
    retries: Vec<Nanos>,
    idle: VecDeque<Slot>,
    scanner: Scanner,
    buffer: Box<[u8]>,
    sending: bool,
    /// Wakes for the next start of an open loop: a wait's own timeout is good to a millisecond alone.
    timer: OwnedFd,
    /// What it is set to.
    armed: Nanos,
}

/// Runs a thread's part.
pub(crate) fn run(turn: Turn<'_>) -> Result<Turn<'_>, String> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| format!("no epoll: {error}"))?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
        .map_err(|error| format!("no timer: {error}"))?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
        .map_err(|error| format!("no timer: {error}"))?;
    let count = turn.connections();
    let mut this = Loop {
        scanner: Scanner::new(turn.plan.request.kind()),
        turn,
        epoll,
        connections: (0..count).map(|_| None).collect(),
        retries: vec![0; count],
        idle: VecDeque::new(),
        buffer: vec![0; BUFFER].into_boxed_slice(),
        sending: false,
        timer,
        armed: 0,
    };
    this.connect_all()?;
    this.turn.start();
    this.load()?;
    let ended = now();
    this.turn.sending_ended(ended);
    this.sending = false;
    this.drain(ended)?;
    this.turn.tally.unanswered += this.in_flight();
    Ok(this.turn)
}

impl Loop<'_> {
    /// Makes all connections before the time runs, so that making them isn't part of the figure. One that fails is tried
    /// again under way.
    fn connect_all(&mut self) -> Result<(), String> {
        let begin = now();
        (0..self.connections.len()).for_each(|index| self.connect(index, begin));
        let waiting = |connection: &Option<Connection>| {
            connection.as_ref().is_some_and(|connection| connection.state != State::Open)
        };
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while self.connections.iter().any(waiting) && !self.turn.stopped() {
            self.wait(&mut events, now() + SWEEP)?;
            self.sweep(now());
        }
        Ok(())
    }

    /// Sends until the time is over.
    fn load(&mut self) -> Result<(), String> {
        self.sending = true;
        let begin = now();
        for index in 0..self.connections.len() {
            if self.connections[index].as_ref().is_some_and(|connection| connection.state == State::Open) {
                self.ready(index, self.turn.plan.depth, begin);
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut next_sweep = begin + SWEEP;
        let mut at = begin;
        while !self.turn.is_over(at) || (self.turn.all_sent() && self.in_flight() > 0 && at < self.turn.end())
        {
            if self.turn.stopped() || self.turn.gives_up() {
                break;
            }
            if self.turn.is_open_loop() {
                self.dispatch(at);
            }
            self.wait(&mut events, self.wake_at(next_sweep))?;
            at = now();
            if at >= next_sweep || self.turn.warm_at().is_some_and(|warm| at >= warm) {
                self.sweep(at);
                self.turn.tick(at);
                next_sweep = at + SWEEP;
            }
        }
        Ok(())
    }

    /// Until when there is nothing to do but for what the server sends.
    fn wake_at(&self, next_sweep: Nanos) -> Nanos {
        let mut until = next_sweep.min(self.turn.end());
        if let Some(warm) = self.turn.warm_at() {
            until = until.min(warm);
        }
        match self.turn.next_start() {
            Some(start) if !self.idle.is_empty() && !self.turn.all_sent() => until.min(start),
            _ => until,
        }
    }

    /// Waits for the answers to what an open loop has sent: leaving out the slowest would flatter the server.
    fn drain(&mut self, ended: Nanos) -> Result<(), String> {
        let until = ended + nanos(self.turn.plan.timeout);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while self.turn.is_open_loop() && self.in_flight() > 0 && now() < until && !self.turn.stopped() {
            self.wait(&mut events, now() + SWEEP)?;
            self.sweep(now());
        }
        Ok(())
    }

    fn in_flight(&self) -> u64 {
        self.connections.iter().flatten().map(|connection| connection.flights.len() as u64).sum()
    }

    /// Waits for events, at most until `until`, and handles them.
    fn wait(&mut self, events: &mut Vec<Event>, until: Nanos) -> Result<(), String> {
        let mut until = until;
        if self.sending && self.turn.is_open_loop() {
            self.arm(until);
            until += SWEEP;
        }
        let left = until.saturating_sub(now());
        let timeout =
            Timespec { tv_sec: (left / 1_000_000_000).cast_signed(), tv_nsec: (left % 1_000_000_000) as _ };
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("epoll failed: {error}")),
        }
        for event in events.iter() {
            let (data, flags) = (event.data, event.flags);
            self.handle(data.u64() as usize, flags);
        }
        Ok(())
    }

    /// Sets the timer, where it isn't set to this moment already.
    fn arm(&mut self, until: Nanos) {
        if self.armed == until {
            return;
        }
        let value =
            Timespec { tv_sec: (until / 1_000_000_000).cast_signed(), tv_nsec: (until % 1_000_000_000) as _ };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // A moment that has passed fires at once. Should it fail, the wait's own timeout ends it, too late but surely.
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).is_ok() {
            self.armed = until;
        }
    }

    #[inline]
    fn handle(&mut self, index: usize, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return };
        let was_open = connection.state == State::Open;
        let turn = &mut self.turn;
        let mut outcome = Ok(Received::default());
        if flags.intersects(EventFlags::OUT | EventFlags::ERR) || !was_open {
            outcome = connection.writable(turn).map(|()| Received::default());
        }
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if outcome.is_ok() && (flags.contains(EventFlags::IN) || hung_up) {
            outcome = connection.readable(turn, &mut self.scanner, &mut self.buffer, hung_up);
        }
        let opened = !was_open && connection.state == State::Open;
        match outcome {
            Err(fault) => self.fail(index, fault),
            Ok(received) if received.closing => self.closed(index),
            Ok(_) if opened => self.opened(index),
            Ok(received) => {
                if was_open && flags.contains(EventFlags::OUT) {
                    self.watch(index);
                }
                if received.answers > 0 {
                    self.ready(index, received.answers, received.at);
                }
            }
        }
    }

    /// A connection stands.
    fn opened(&mut self, index: usize) {
        self.watch(index);
        if self.sending {
            self.ready(index, self.turn.plan.depth, now());
        }
    }

    /// A connection has room for `count` more requests: sends them (closed loop), or lets them wait for their start.
    #[inline]
    fn ready(&mut self, index: usize, count: usize, since: Nanos) {
        if !self.sending {
            return;
        }
        if self.turn.is_open_loop() {
            self.idle.extend(std::iter::repeat_n(Slot { connection: index as u32, since }, count));
        } else {
            self.send_now(index, count, since);
        }
    }

    /// Sends `count` requests on a connection, in as few calls as they fit in.
    #[inline]
    fn send_now(&mut self, index: usize, count: usize, at: Nanos) {
        let mut left = count;
        while left > 0 && !self.turn.is_over(at) {
            let batch = self.turn.take_requests(left.min(self.turn.plan.request.batch()));
            self.turn.tally.sent += batch as u64;
            if !self.transmit(index, batch, Flight { intended: at, sent: at }) {
                return;
            }
            left -= batch;
        }
    }

    /// Sends what is due in an open loop, while connections have room.
    fn dispatch(&mut self, mut at: Nanos) {
        while !self.idle.is_empty() {
            let Some(intended) = self.turn.take_start(at) else { return };
            let Some(slot) = self.idle.pop_front() else { return };
            at = now();
            self.turn.tally.note_send(intended, at, slot.since);
            self.transmit(slot.connection as usize, 1, Flight { intended, sent: at });
        }
    }

    /// Sends so many requests at once; whether the connection is still there.
    #[inline]
    fn transmit(&mut self, index: usize, batch: usize, flight: Flight) -> bool {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return false };
        for _ in 0..batch {
            connection.flights.push_back(flight);
        }
        let result = connection.send(self.turn.plan.request.bytes(batch));
        let unsent = connection.has_unsent();
        match result {
            Err(fault) => {
                self.fail(index, fault);
                return false;
            }
            Ok(()) if unsent => self.watch(index),
            Ok(()) => {}
        }
        true
    }

    /// Tells epoll what a connection waits for: room to write only where something is left to be written.
    fn watch(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_ref() else { return };
        let flags = if connection.has_unsent() { READING | EventFlags::OUT } else { READING };
        // It was added when it was made, so this can't fail but for want of memory; the sweep finds it then.
        let _ = epoll::modify(&self.epoll, connection.socket(), EventData::new_u64(index as u64), flags);
    }

    fn connect(&mut self, index: usize, at: Nanos) {
        let made = Connection::begin(&self.turn, at).and_then(|connection| {
            let data = EventData::new_u64(index as u64);
            epoll::add(&self.epoll, connection.socket(), data, READING | EventFlags::OUT)
                .map_err(|error| Fault::new(ErrorKind::Connect, format!("epoll: {error}")))?;
            Ok(connection)
        });
        match made {
            Ok(connection) => self.connections[index] = Some(connection),
            Err(fault) => self.fail(index, fault),
        }
    }

    /// The server closed a connection in order. What was sent behind its last answer was not read, and is sent again.
    fn closed(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else { return };
        if connection.answers == 0 {
            self.connections[index] = Some(connection);
            let message = "the server closed the connection before it was asked anything";
            return self.fail(index, Fault::new(ErrorKind::Connect, message));
        }
        self.forget_slots(index);
        for flight in &connection.flights {
            self.turn.give_back(flight.intended);
        }
        drop(connection);
        if self.sending {
            self.connect(index, now());
        }
    }

    /// A connection broke, or could not be made.
    fn fail(&mut self, index: usize, fault: Fault) {
        let at = now();
        let lost = self.connections[index].take();
        self.forget_slots(index);
        let (flights, answers) =
            lost.map_or((0, 0), |connection| (connection.flights.len(), connection.answers));
        // Each lost request counts; a connection that was never used, or that broke between requests, once.
        let silent = matches!(fault.kind, ErrorKind::Read | ErrorKind::Write | ErrorKind::Closed);
        let count = if silent { flights } else { flights.max(1) };
        self.turn.tally.note_fault(count as u64, fault.kind, || fault.message);
        self.retries[index] = at + SWEEP;
        // One that gave answers is made again at once; one that never did waits, or a server that refuses would be
        // asked as fast as the machine can.
        if answers > 0 && self.sending {
            self.connect(index, at);
        }
    }

    fn forget_slots(&mut self, index: usize) {
        if !self.idle.is_empty() {
            self.idle.retain(|slot| slot.connection as usize != index);
        }
    }

    /// Gives up on what takes too long, and makes lost connections again.
    fn sweep(&mut self, at: Nanos) {
        let timeout = nanos(self.turn.plan.timeout);
        for index in 0..self.connections.len() {
            let seconds = Duration::from_nanos(timeout).as_secs_f64();
            match &self.connections[index] {
                None if self.sending && self.retries[index] <= at => self.connect(index, at),
                None => {}
                Some(connection) => match (connection.state, connection.flights.front()) {
                    (State::Connecting(since), _) if at.saturating_sub(since) >= timeout => {
                        let tls = if self.turn.plan.tls.is_some() { ", TLS included," } else { "" };
                        let message = format!("no connection{tls} within {seconds} s");
                        self.fail(index, Fault::new(ErrorKind::Connect, message));
                    }
                    (State::Open, Some(flight)) if at.saturating_sub(flight.sent) >= timeout => {
                        let message = format!("no complete answer within {seconds} s");
                        self.fail(index, Fault::new(ErrorKind::Timeout, message));
                    }
                    _ => {}
                },
            }
        }
    }
}
