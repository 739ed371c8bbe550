//! Metrics that are registered at run time: those of plugins. A family is registered under its name once, and everyone who
//! registers the same gets the same.

use super::cell::{Counter, Histogram};
use super::family::Family;
use super::name::{Described, label_text};
use super::text::Text;
use super::{BUCKETS_MAX, Kind, Metric};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stdx::{LazyPerWorker, WorkerToken};

/// Families that may be registered. With the default of series each a scrape of all is 400 MB at worst; scripts that make
/// names of data end here long before.
pub const FAMILIES_MAX: usize = 256;

/// Labels of one family.
pub const LABELS_MAX: usize = 16;

/// The families that were registered, by name.
pub(super) struct Registered {
    series_max: usize,
    families: Mutex<BTreeMap<Arc<str>, Registration>>,
}

#[derive(Clone)]
enum Registration {
    Counters(Arc<Counters>),
    Gauges(Arc<Gauges>),
    Histograms(Arc<Histograms>),
}

/// What is said of a family.
#[derive(Debug, PartialEq, Eq)]
struct Spec {
    name: Arc<str>,
    /// Escaped as the format asks.
    help: String,
    kind: Kind,
    labels: Vec<String>,
    /// A histogram's upper bounds.
    bounds: Vec<u64>,
}

/// A family of counters.
pub struct Counters(Cells<Counter>);

/// A family of gauges: what was set last, and what workers added since the start.
pub struct Gauges {
    cells: Cells<Counter>,
    set: Mutex<BTreeMap<Box<str>, f64>>,
}

/// A family of histograms of whole numbers, in the unit that the name says.
pub struct Histograms(Cells<Histogram>);

/// Why a family can't be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterError(String);

/// The series of a family, and by worker those that it has met.
struct Cells<C> {
    family: Family<C, Arc<Spec>>,
    series_max: usize,
    met: LazyPerWorker<Met<C>>,
}

struct Met<C> {
    cells: HashMap<Box<[u8]>, Arc<C>>,
    /// The label values that are looked for, each with a byte behind it that no text has.
    key: Vec<u8>,
}

impl Registered {
    pub(super) fn new(series_max: usize) -> Self {
        Self { series_max, families: Mutex::default() }
    }

    pub(super) fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<Arc<Counters>, RegisterError> {
        let spec = Spec::new(name, help, Kind::Counter, labels, &[])?;
        let new = |spec| Registration::Counters(Arc::new(Counters(Cells::new(spec, self.series_max))));
        match self.register(spec, new)? {
            Registration::Counters(found) => Ok(found),
            _ => Err(taken(name)),
        }
    }

    pub(super) fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<Arc<Gauges>, RegisterError> {
        let spec = Spec::new(name, help, Kind::Gauge, labels, &[])?;
        let new = |spec| {
            let cells = Cells::new(spec, self.series_max);
            Registration::Gauges(Arc::new(Gauges { cells, set: Mutex::default() }))
        };
        match self.register(spec, new)? {
            Registration::Gauges(found) => Ok(found),
            _ => Err(taken(name)),
        }
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[u64],
    ) -> Result<Arc<Histograms>, RegisterError> {
        let spec = Spec::new(name, help, Kind::Histogram, labels, bounds)?;
        let new = |spec| Registration::Histograms(Arc::new(Histograms(Cells::new(spec, self.series_max))));
        match self.register(spec, new)? {
            Registration::Histograms(found) => Ok(found),
            _ => Err(taken(name)),
        }
    }

    fn register(
        &self,
        spec: Spec,
        new: impl FnOnce(Arc<Spec>) -> Registration,
    ) -> Result<Registration, RegisterError> {
        let mut families = self.lock();
        if let Some(found) = families.get(&spec.name) {
            return if *found.spec() == spec { Ok(found.clone()) } else { Err(taken(&spec.name)) };
        }
        if families.len() >= FAMILIES_MAX {
            return Err(RegisterError(format!("more than {FAMILIES_MAX} metrics are registered")));
        }
        let spec = Arc::new(spec);
        let registration = new(Arc::clone(&spec));
        families.insert(Arc::clone(&spec.name), registration.clone());
        Ok(registration)
    }

    pub(super) fn show(&self, text: &mut Text<'_>) {
        for registration in self.lock().values() {
            match registration {
                Registration::Counters(counters) => text.counters(&counters.0.family),
                Registration::Gauges(gauges) => gauges.show(text),
                Registration::Histograms(histograms) => {
                    let bounds: Vec<f64> = histograms.bounds().iter().map(|bound| *bound as f64).collect();
                    text.histograms(&histograms.0.family, &bounds, 1.0);
                }
            }
        }
    }

    /// By name, how often a label set found no place of its own.
    pub(super) fn overflowed(&self) -> Vec<(Arc<str>, u64)> {
        let overflowed = |registration: &Registration| match registration {
            Registration::Counters(counters) => counters.0.family.overflowed(),
            Registration::Gauges(gauges) => gauges.cells.family.overflowed(),
            Registration::Histograms(histograms) => histograms.0.family.overflowed(),
        };
        self.lock().iter().map(|(name, of)| (Arc::clone(name), overflowed(of))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Registration>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    fn spec(&self) -> &Spec {
        match self {
            Self::Counters(counters) => counters.0.family.metric(),
            Self::Gauges(gauges) => gauges.cells.family.metric(),
            Self::Histograms(histograms) => histograms.0.family.metric(),
        }
    }
}

impl Counters {
    /// Adds `by` to the series with these label values, in the order of the labels.
    pub fn add(&self, worker: &WorkerToken, values: &[&str], by: u64) {
        self.0.with(worker, values, Counter::default, |cell| cell.add(by));
    }
}

impl Gauges {
    /// Adds `by` to the series with these label values. What one worker adds another may take away.
    pub fn add(&self, worker: &WorkerToken, values: &[&str], by: i64) {
        self.cells.with(worker, values, Counter::default, |cell| {
            if by < 0 { cell.take(by.unsigned_abs()) } else { cell.add(by.unsigned_abs()) }
        });
    }

    /// Sets the series with these label values, from any thread; what workers added counts on top. Takes a lock. Beyond
    /// the bound of series a new one is dropped.
    pub fn set(&self, values: &[&str], value: f64) {
        let labels = self.cells.family.metric().label_text(values);
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.len() < self.cells.series_max || set.contains_key(labels.as_str()) {
            set.insert(labels.into(), value);
        }
    }

    fn show(&self, text: &mut Text<'_>) {
        let mut series: BTreeMap<Box<str>, f64> =
            self.set.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.cells.family.each(|labels, cells| {
            let added = cells.map(Counter::value).fold(0, u64::wrapping_add).cast_signed();
            *series.entry(labels.into()).or_default() += added as f64;
        });
        let metric = self.cells.family.metric();
        if !series.is_empty() {
            text.head(metric);
        }
        for (labels, value) in &series {
            text.sample(metric, "", labels, *value);
        }
    }
}

impl Histograms {
    /// Counts `value` in the series with these label values.
    pub fn observe(&self, worker: &WorkerToken, values: &[&str], value: u64) {
        let bounds = self.bounds();
        self.0.with(worker, values, || Histogram::new(bounds.len()), |cell| cell.observe(bounds, value));
    }

    fn bounds(&self) -> &[u64] {
        &self.0.family.metric().bounds
    }
}

impl<C: Send + Sync + 'static> Cells<C> {
    fn new(spec: Arc<Spec>, series_max: usize) -> Self {
        let met = LazyPerWorker::new(|_| Met { cells: HashMap::new(), key: Vec::new() });
        Self { family: Family::new(spec, series_max), series_max, met }
    }

    /// Runs `f` on the worker's cell of the series. A series that the worker has met is found without a lock and without
    /// an allocation.
    fn with(&self, worker: &WorkerToken, values: &[&str], make: impl FnOnce() -> C, f: impl FnOnce(&C)) {
        debug_assert_eq!(values.len(), self.family.metric().labels.len(), "a value for each label");
        self.met.with(worker, |met| {
            met.key.clear();
            for value in values {
                met.key.extend_from_slice(value.as_bytes());
                met.key.push(0xff);
            }
            if let Some(cell) = met.cells.get(met.key.as_slice()) {
                return f(cell);
            }
            let cell = self.family.cell(worker, values, make);
            f(&cell);
            if met.cells.len() < self.series_max {
                met.cells.insert(met.key.as_slice().into(), cell);
            }
        });
    }
}

impl Spec {
    fn new(
        name: &str,
        help: &str,
        kind: Kind,
        labels: &[&str],
        bounds: &[u64],
    ) -> Result<Self, RegisterError> {
        let refuse = |message: String| Err(RegisterError(message));
        if !is_name(name, true) {
            return refuse(format!("`{name}` is no name of a metric"));
        }
        if Metric::ALL.iter().any(|metric| metric.name() == name) {
            return Err(taken(name));
        }
        let reserved = |label: &str| label.starts_with("__") || (kind == Kind::Histogram && label == "le");
        if let Some(label) = labels.iter().find(|label| !is_name(label, false) || reserved(label)) {
            return refuse(format!("`{label}` is no name of a label"));
        }
        let twice = (1..labels.len()).find(|at| labels[..*at].contains(&labels[*at]));
        if let Some(at) = twice {
            return refuse(format!("the label `{}` is there twice", labels[at]));
        }
        if labels.len() > LABELS_MAX {
            return refuse(format!("a metric has at most {LABELS_MAX} labels"));
        }
        if bounds.len() > BUCKETS_MAX || !bounds.is_sorted_by(|a, b| a < b) {
            return refuse(format!("bounds ascend, and are at most {BUCKETS_MAX}"));
        }
        Ok(Self {
            name: name.into(),
            help: help.replace('\\', "\\\\").replace('\n', "\\n"),
            kind,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            bounds: bounds.to_vec(),
        })
    }
}

impl Described for Arc<Spec> {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn label_text(&self, values: &[&str]) -> String {
        label_text(&self.labels, values)
    }
}

/// Whether `text` is a name in the data model of Prometheus; those of metrics may have colons.
fn is_name(text: &str, colons: bool) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (colons && byte == b':');
    !text.is_empty() && text.bytes().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn taken(name: &str) -> RegisterError {
    RegisterError(format!("another metric has the name `{name}`"))
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegisterError {}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counters({})", self.0.family.metric().name)
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gauges({})", self.cells.family.metric().name)
    }
}

impl fmt::Debug for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histograms({})", self.0.family.metric().name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, MetricsConfig, exposition};
    use super::*;

    /// The lines of the metric called `name`, without comments.
    fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
        let start = format!("apisix_{name}");
        exposition(metrics).lines().filter(|line| line.starts_with(&start)).map(str::to_owned).collect()
    }

    #[test]
    fn workers_count_apart_and_scrapes_add_up() {
        let metrics = Metrics::default();
        let tokens = metrics.counter("tokens", "Tokens\nused", &["model"]).expect("a new name");
        let open = metrics.gauge("open", "Open", &[]).expect("a new name");
        let sizes = metrics.histogram("sizes", "Sizes", &["to"], &[10, 20]).expect("a new name");
        assert_eq!(lines(&metrics, "tokens"), [""; 0], "nothing was counted");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let worker = WorkerToken::claim().expect("one of 256");
                    for _ in 0..10 {
                        tokens.add(&worker, &["a"], 2);
                        open.add(&worker, &[], 1);
                    }
                    open.add(&worker, &[], -20);
                    sizes.observe(&worker, &["x"], 11);
                });
            }
        });
        open.set(&[], 100.5);
        assert_eq!(lines(&metrics, "tokens"), ["apisix_tokens{model=\"a\"} 60"]);
        assert_eq!(lines(&metrics, "open"), ["apisix_open 70.5"]);
        let expected = [
            "_bucket{to=\"x\",le=\"10\"} 0",
            "_bucket{to=\"x\",le=\"20\"} 3",
            "_bucket{to=\"x\",le=\"+Inf\"} 3",
            "_count{to=\"x\"} 3",
            "_sum{to=\"x\"} 33",
        ];
        assert_eq!(lines(&metrics, "sizes"), expected.map(|line| format!("apisix_sizes{line}")));
        let text = exposition(&metrics);
        assert!(
            text.contains("# HELP apisix_tokens Tokens\\nused\n# TYPE apisix_tokens counter\n"),
            "{text}"
        );
    }

    #[test]
    fn one_name_is_one_family() {
        let metrics = Metrics::default();
        let worker = WorkerToken::claim().expect("one of 256");
        metrics.counter("calls", "Calls", &["a"]).expect("a new name").add(&worker, &["x"], 1);
        metrics.counter("calls", "Calls", &["a"]).expect("the same").add(&worker, &["x"], 1);
        assert_eq!(lines(&metrics, "calls"), ["apisix_calls{a=\"x\"} 2"]);
        for (name, labels) in [
            ("calls", vec!["b"]),
            ("http_status", vec![]),
            ("", vec![]),
            ("1a", vec![]),
            ("a b", vec![]),
            ("ok", vec!["a:b"]),
            ("ok", vec!["__a"]),
            ("ok", vec!["a", "a"]),
            ("ok", vec!["a"; LABELS_MAX + 1]),
        ] {
            assert!(metrics.counter(name, "Calls", &labels).is_err(), "{name} {labels:?}");
        }
        assert!(metrics.gauge("calls", "Calls", &["a"]).is_err(), "another kind");
        assert!(metrics.histogram("ok", "", &["le"], &[1]).is_err());
        assert!(metrics.histogram("ok", "", &[], &[2, 1]).is_err());
    }

    #[test]
    fn series_and_families_are_bounded() {
        let metrics = Metrics::new(&MetricsConfig { series_max: 2, ..MetricsConfig::default() });
        let worker = WorkerToken::claim().expect("one of 256");
        let counters = metrics.counter("bounded", "", &["to", "who"]).expect("a new name");
        for who in ["a", "b", "c", "d", "a"] {
            counters.add(&worker, &["x", who], 1);
        }
        let expected = [
            "apisix_bounded{to=\"x\",who=\"a\"} 2",
            "apisix_bounded{to=\"x\",who=\"b\"} 1",
            "apisix_bounded{to=\"x\",who=\"overflow\"} 2",
        ];
        assert_eq!(lines(&metrics, "bounded"), expected);
        assert_eq!(lines(&metrics, "metric_series_overflow_total{metric=\"bounded\"").len(), 1);
        for number in 1..FAMILIES_MAX {
            metrics.counter(&format!("m{number}"), "", &[]).expect("room");
        }
        assert!(metrics.counter("more", "", &[]).is_err());
    }
}
