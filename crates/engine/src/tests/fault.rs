//! A panic in the loop of a worker.

use std::sync::{Mutex, PoisonError};

/// The name of the engine of which the next worker that ticks panics: its `server`.
static ARMED: Mutex<Option<String>> = Mutex::new(None);

/// Has the next tick of an engine called `server` panic; once the one before has.
pub(crate) fn arm(server: &str) {
    while is_armed() {
        std::thread::yield_now();
    }
    *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.to_owned());
}

pub(crate) fn is_armed() -> bool {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

pub(crate) fn strike(server: &str) {
    let struck = ARMED.lock().unwrap_or_else(PoisonError::into_inner).take_if(|armed| armed == server);
    assert!(struck.is_none(), "injected fault");
}
