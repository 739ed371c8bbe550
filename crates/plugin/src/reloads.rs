//! Orders to read the configuration and the plugins' code again.

use std::sync::{Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Where whoever answers the Admin API and the control API orders a reload; one for the process, in [`crate::Shared`].
#[derive(Debug, Default)]
pub struct Reloads(Mutex<Option<mpsc::UnboundedSender<Reload>>>);

/// An order, answered once the reload is done.
#[derive(Debug)]
pub struct Reload(oneshot::Sender<Result<(), String>>);

impl Reload {
    /// Tells whoever ordered it what came of it.
    pub fn done(self, result: Result<(), String>) {
        // Nobody waits any more.
        let _ = self.0.send(result);
    }
}

impl Reloads {
    /// Takes the orders from now on.
    pub fn accept(&self) -> mpsc::UnboundedReceiver<Reload> {
        let (orders, accepted) = mpsc::unbounded_channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(orders);
        accepted
    }

    /// Orders a reload and waits for its end. Where nobody takes orders there is nothing to reload.
    ///
    /// # Errors
    /// Why the new configuration or code is refused; the old one stays active.
    pub async fn order(&self) -> Result<(), String> {
        let (done, result) = oneshot::channel();
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(orders) = orders else { return Ok(()) };
        orders.send(Reload(done)).map_err(|_| "the gateway ends".to_owned())?;
        result.await.unwrap_or_else(|_| Err("the gateway ends".to_owned()))
    }
}
