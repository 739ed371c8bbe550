//! What the plugins have in common that tell collectors of requests: the entry of a request, the batches, the hooks. A
//! logger is a [`Collector`]; [`Logger`] makes a plugin of it.

mod bodies;
mod entry;
mod format;
mod headers;
mod schema;

use bodies::Bodies;
use delivery::{Backlog, Batches, Delivery, Destination, Gathering};
use entry::EntryMaker;
use model::ConfigError;
use model::var::BodyNeed;
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnLog, OnResponse, OnStreamLog, Plugin, Session,
    UpstreamResponse,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// What one kind of logger adds to all of them.
pub trait Collector: Sized + Send + Sync + 'static {
    /// What a user writes besides what all loggers have.
    type Config: DeserializeOwned;

    /// The default of `name`, which stands in the error log.
    const NAME: &'static str;

    /// The schema of what it adds, an object with `properties`.
    fn schema() -> Value;

    /// The `properties` of the metadata that it adds.
    fn metadata_properties() -> Value {
        Value::Null
    }

    /// Whether entries are gathered in batches as the user says.
    const BATCHES: bool = true;

    /// Where its batches go; `None` where that is not known, which is to be logged. `batched` says whether a batch may
    /// have several entries.
    ///
    /// # Errors
    /// Every mistake in the configuration.
    fn destination(
        config: Self::Config,
        batched: bool,
        cx: &CompileContext<'_>,
    ) -> Result<Option<impl Destination>, Vec<ConfigError>>;

    /// An entry as it is sent.
    fn render(entry: Map<String, Value>, exchange: &dyn model::var::VarSource) -> Vec<u8> {
        let _ = exchange;
        Value::Object(entry).to_string().into_bytes()
    }
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config<C> {
    #[serde(flatten)]
    entry: entry::Config,
    #[serde(flatten)]
    batches: Option<BatchConfig>,
    #[serde(flatten)]
    own: C,
}

/// How entries are gathered. Times are in seconds.
#[derive(Debug, Deserialize)]
struct BatchConfig {
    name: String,
    batch_max_size: usize,
    inactive_timeout: u64,
    buffer_duration: u64,
    max_retry_count: u32,
    retry_delay: u64,
}

/// Entries that may wait, for all configurations of a plugin together: APISIX's default of `max_pending_entries`.
const PENDING_DEFAULT: usize = 8192;

/// The compiled form.
pub struct Logger<C> {
    entries: EntryMaker,
    bodies: Bodies,
    /// `None` where it is not known where to.
    batches: Option<Batches>,
    collector: PhantomData<fn() -> C>,
}

/// What waits of one kind of logger.
struct BacklogOf<C>(Arc<Backlog>, PhantomData<fn() -> C>);

impl<C> Default for BacklogOf<C> {
    fn default() -> Self {
        Self(Arc::default(), PhantomData)
    }
}

impl<C: Collector> Plugin for Logger<C> {
    type Config = Config<C::Config>;

    fn compile(config: Self::Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let Config { entry, batches, own } = config;
        let (entries, bodies) = (EntryMaker::compile(&entry, cx.metadata), Bodies::compile(&entry));
        let gathering = gathering::<C>(batches, cx.metadata);
        let destination = C::destination(own, gathering.batch_max_size > 1, cx);
        let mut errors = Vec::new();
        let mut note = |found: Vec<ConfigError>| errors.extend(found);
        let bodies = bodies.map_err(&mut note).ok();
        let entries = entries.map_err(&mut note).ok();
        let destination = destination.map_err(&mut note).ok();
        let (Some(mut bodies), Some(entries), Some(destination)) = (bodies, entries, destination) else {
            return Err(errors);
        };
        bodies.asked_by(&entries);
        let delivery: Arc<Delivery> = cx.shared.get();
        let backlog = Arc::clone(&cx.shared.get::<BacklogOf<C>>().0);
        let batches = destination.map(|destination| Batches::new(delivery, backlog, gathering, destination));
        Ok(Self { entries, bodies, batches, collector: PhantomData })
    }

    fn body_need(&self) -> BodyNeed {
        self.entries.body_need().or(self.bodies.body_need())
    }

    fn schema() -> Value {
        schema::config(C::schema(), C::BATCHES.then_some(C::NAME))
    }

    fn metadata_schema() -> Option<Value> {
        Some(schema::metadata(C::metadata_properties(), C::BATCHES.then_some(PENDING_DEFAULT)))
    }
}

/// How entries are gathered; without settings those that there are at a moment.
fn gathering<C: Collector>(config: Option<BatchConfig>, metadata: Option<&Value>) -> Gathering {
    let pending = metadata.and_then(|metadata| metadata.get("max_pending_entries")?.as_u64());
    let pending = pending.and_then(|pending| usize::try_from(pending).ok()).unwrap_or(PENDING_DEFAULT);
    let config = config.filter(|_| C::BATCHES).unwrap_or_else(|| BatchConfig {
        name: C::NAME.to_owned(),
        batch_max_size: PENDING_DEFAULT,
        inactive_timeout: 0,
        buffer_duration: 1,
        max_retry_count: 0,
        retry_delay: 0,
    });
    Gathering {
        name: config.name,
        batch_max_size: config.batch_max_size,
        inactive_timeout: Duration::from_secs(config.inactive_timeout),
        buffer_duration: Duration::from_secs(config.buffer_duration),
        max_retry_count: config.max_retry_count,
        retry_delay: Duration::from_secs(config.retry_delay),
        max_pending_entries: pending,
    }
}

impl<C: Collector> OnAccess for Logger<C> {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.bodies.read_request(exchange)
    }
}

impl<C: Collector> OnResponse for Logger<C> {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let seen = self.bodies.see_response(exchange, response);
        exchange.extras().note(self, seen);
    }
}

impl<C: Collector> OnLog for Logger<C> {
    fn log(&self, exchange: &Exchange<'_>) {
        let Some(batches) = &self.batches else { return };
        let seen = exchange.extras.as_ref().and_then(|extras| extras.noted(self));
        if self.entries.admits(exchange) {
            batches.push(C::render(self.entries.of_exchange(exchange, &self.bodies, seen), exchange));
        }
    }
}

impl<C: Collector> OnStreamLog for Logger<C> {
    fn log_stream(&self, session: &Session<'_>) {
        let Some(batches) = &self.batches else { return };
        match self.entries.of_session(session) {
            Some(entry) => batches.push(C::render(entry, session)),
            None => {
                tracing::error!("{}: a session is logged by a log_format alone, and there is none", C::NAME);
            }
        }
    }
}

/// A port, as far as a schema of APISIX's leaves open whether it is one.
pub(crate) fn port(number: u64) -> Result<u16, Vec<ConfigError>> {
    u16::try_from(number).map_err(|_| vec![ConfigError::new("/port", "a port is at most 65535")])
}

#[cfg(test)]
mod tests;
