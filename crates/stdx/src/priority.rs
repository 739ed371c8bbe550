//! Who goes first where cores are few: a worker, because somebody waits for its answer.

use std::io;

/// How much the other threads stand back: 5 of 19 is a third of a worker's share where both want a core.
pub const BACKGROUND_NICE: i32 = 5;

/// Lets the workers go before this thread, and before those it starts from now on.
///
/// # Errors
/// Where the system refuses it; the thread goes on as it was.
pub fn stand_back() -> io::Result<()> {
    // Linux keeps a nice value for each thread; no process is named, so it is the one that asks.
    Ok(rustix::process::setpriority_process(None, BACKGROUND_NICE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_with_those_it_starts_and_no_other() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let made = std::thread::spawn(move || {
            // Refused where the tests themselves run behind it.
            let _ = stand_back();
            std::thread::spawn(nice).join().unwrap()
        });
        assert!(made.join().unwrap() >= BACKGROUND_NICE);
        assert_eq!(nice(), before);
    }
}
