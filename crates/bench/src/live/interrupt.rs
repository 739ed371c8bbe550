//! Ctrl-C: the first ends the run, and what was measured is printed; the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a process that SIGINT ended, as shells have it.
const EXIT: i32 = 130;

/// Whether the user has asked for the end.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT and SIGTERM from here on. Where that is impossible they end the process, as they do anywhere.
    #[must_use]
    pub fn watch() -> Self {
        let requested = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&requested);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            let signals = runtime
                .block_on(async { Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)) });
            if let Ok::<_, std::io::Error>((interrupt, terminate)) = signals {
                // Ends with the process: nothing waits for it.
                std::thread::spawn(move || runtime.block_on(wait(interrupt, terminate, &flag)));
            }
        }
        Self(requested)
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Relaxed)
    }
}

async fn wait(mut interrupt: Signal, mut terminate: Signal, flag: &AtomicBool) {
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if flag.swap(true, Relaxed) {
            std::process::exit(EXIT);
        }
    }
}
