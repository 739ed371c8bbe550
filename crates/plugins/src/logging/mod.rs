//! What the plugins have in common that tell collectors of requests: the entry of a request, the batches, the hooks. A
//! logger is a [`Collector`]; [`Logger`] makes a plugin of it.

mod bodies;
mod config;
mod entry;
mod format;
mod headers;
mod schema;

pub(crate) use headers::of_request as request_fields;

use bodies::Bodies;
use delivery::{Backlog, Batches, Delivery, Destination, Gathering};
pub use entry::Entry;
use entry::EntryMaker;
use model::ConfigError;
use model::var::{BodyNeed, Var, VarSource};
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnLog, OnResponse, OnStreamLog, Plugin, Session,
    UpstreamResponse,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use stdx::Secret;

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

    /// Whether it sends entries that describe requests, as the user says; otherwise [`Self::render`] is given an empty one.
    const ENTRIES: bool = true;

    /// Whether entries are gathered in batches as the user says.
    const BATCHES: bool = true;

    /// What renders its entries, and where its batches go: `None` where that is not known, which is to be logged.
    /// `batched` says whether a batch may have several entries.
    ///
    /// # Errors
    /// Every mistake in the configuration.
    fn compile(
        config: Self::Config,
        batched: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>>;

    /// Whether this request is one of those that are logged.
    fn draws(&self, exchange: &Exchange<'_>) -> bool {
        let _ = exchange;
        true
    }

    /// An entry as it is sent.
    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let _ = source;
        Value::Object(entry.fields).to_string().into_bytes()
    }
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config<C> {
    #[serde(flatten)]
    entry: Option<config::Config>,
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
    collector: C,
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
        let entry = entry.filter(|_| C::ENTRIES).unwrap_or_default();
        let (entries, bodies) = (EntryMaker::compile(&entry, cx.metadata), Bodies::compile(&entry));
        let gathering = gathering::<C>(batches, cx.metadata);
        let compiled = C::compile(own, gathering.batch_max_size > 1, cx);
        let mut errors = Vec::new();
        let mut note = |found: Vec<ConfigError>| errors.extend(found);
        let bodies = bodies.map_err(&mut note).ok();
        let entries = entries.map_err(&mut note).ok();
        let compiled = compiled.map_err(&mut note).ok();
        let (Some(mut bodies), Some(entries), Some((collector, destination))) = (bodies, entries, compiled)
        else {
            return Err(errors);
        };
        bodies.format_has_request = entries.has_request_body();
        bodies.response_fields = entries.has_response_fields();
        let delivery: Arc<Delivery> = cx.shared.get();
        let backlog = Arc::clone(&cx.shared.get::<BacklogOf<C>>().0);
        let batches = destination.map(|destination| Batches::new(delivery, backlog, gathering, destination));
        Ok(Self { entries, bodies, batches, collector })
    }

    fn body_need(&self) -> BodyNeed {
        self.entries.body_need().or(self.bodies.body_need())
    }

    fn schema() -> Value {
        schema::config(C::schema(), C::ENTRIES, C::BATCHES.then_some(C::NAME))
    }

    fn metadata_schema() -> Option<Value> {
        let pending = C::BATCHES.then_some(PENDING_DEFAULT);
        Some(schema::metadata(C::metadata_properties(), C::ENTRIES, pending))
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
        if self.entries.admits(exchange) && self.collector.draws(exchange) {
            let entry = match C::ENTRIES {
                true => self.entries.of_exchange(exchange, &self.bodies, seen),
                false => Entry::default(),
            };
            batches.push(self.collector.render(entry, exchange));
        }
    }
}

impl<C: Collector> OnStreamLog for Logger<C> {
    fn log_stream(&self, session: &Session<'_>) {
        let Some(batches) = &self.batches else { return };
        match self.entries.of_session(session) {
            Some(entry) => batches.push(self.collector.render(entry, session)),
            None => {
                tracing::error!("{}: a session is logged by a log_format alone, and there is none", C::NAME);
            }
        }
    }
}

/// What a schema of APISIX's takes for an address.
pub(crate) const URI: &str = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?";

/// Fields for requests to a collector, as a user wrote them in `headers`.
///
/// # Errors
/// Names that are no tokens, values with control characters (RFC 9110 section 5).
pub(crate) fn checked_headers(
    headers: BTreeMap<String, Secret>,
) -> Result<Vec<(String, Secret)>, Vec<ConfigError>> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let good = |name: &str, value: &str| {
        !name.is_empty() && name.bytes().all(token) && !value.bytes().any(|byte| byte.is_ascii_control())
    };
    let wrong = headers.iter().filter(|(name, value)| !good(name, value.as_str()));
    let errors: Vec<_> = wrong
        .map(|(name, _)| ConfigError::new(format!("/headers/{name}"), "no name and value of an HTTP field"))
        .collect();
    if errors.is_empty() { Ok(headers.into_iter().collect()) } else { Err(errors) }
}

/// A time that a variable says in seconds.
pub(crate) fn seconds(source: &dyn VarSource, var: &Var) -> Option<f64> {
    let value = source.var(var)?;
    std::str::from_utf8(&value).ok()?.parse().ok()
}

/// When the request began, in seconds since 1970.
pub(crate) fn began_s(source: &dyn VarSource) -> f64 {
    let [now, took] = [Var::Msec, Var::RequestTime].map(|var| seconds(source, &var).unwrap_or_default());
    ((now - took) * 1000.0).round() / 1000.0
}

/// The time.
pub(crate) fn now(source: &dyn VarSource) -> jiff::Timestamp {
    let now = seconds(source, &Var::Msec).and_then(|now| Duration::try_from_secs_f64(now).ok());
    now.and_then(|now| jiff::Timestamp::UNIX_EPOCH.checked_add(now).ok()).unwrap_or_default()
}

/// The time in UTC, as RFC 3339 has it, to the millisecond.
pub(crate) fn zulu(source: &dyn VarSource) -> String {
    now(source).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A port, as far as a schema of APISIX's leaves open whether it is one.
pub(crate) fn port(number: u64) -> Result<u16, Vec<ConfigError>> {
    u16::try_from(number).map_err(|_| vec![ConfigError::new("/port", "a port is at most 65535")])
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod collectors_tests;
