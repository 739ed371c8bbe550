//! What the operator tells the process by signals.
//!
//! SIGTERM, SIGQUIT and SIGINT drain: no new connections, requests in flight are answered. Any second one of them ends
//! at once. So `tidegate quit` sends SIGQUIT, and `tidegate stop` sends SIGTERM and SIGINT: two different signals,
//! because the kernel merges equal ones. SIGHUP asks for the configuration to be read again, SIGUSR1 for the logs to be
//! opened anew.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// End.
    Shutdown(Shutdown),
    /// Read the configuration again.
    Reload,
    /// Open the logs anew: they were rotated.
    ReopenLogs,
}

/// How to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Answer the requests in flight first, for `worker_shutdown_timeout` at most.
    Graceful,
    /// At once.
    Fast,
}

/// The signals of this process.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    quit: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
    ending: bool,
}

impl Signals {
    /// Takes over the signals. Has to be called on a runtime with I/O enabled.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            ending: false,
        })
    }

    /// The next event. May be dropped and called again without losing one.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.quit.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => return Event::Reload,
            _ = self.user1.recv() => return Event::ReopenLogs,
        }
        let how = if self.ending { Shutdown::Fast } else { Shutdown::Graceful };
        self.ending = true;
        Event::Shutdown(how)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    #[test]
    fn the_second_request_to_end_is_fast() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut signals = Signals::listen().unwrap();
            let cases = [
                (Number::HUP, Event::Reload),
                (Number::TERM, Event::Shutdown(Shutdown::Graceful)),
                (Number::USR1, Event::ReopenLogs),
                (Number::INT, Event::Shutdown(Shutdown::Fast)),
                (Number::QUIT, Event::Shutdown(Shutdown::Fast)),
            ];
            for (number, expected) in cases {
                kill_process(getpid(), number).unwrap();
                assert_eq!(signals.next().await, expected, "{number:?}");
            }
        });
    }
}
