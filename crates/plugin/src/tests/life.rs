//! What plugins do beside exchanges: tasks of configurations, the start and the end of process and workers.

use crate::testkit::{self, Bench, FakeServices};
use crate::{
    Answer, Background, Call, CallError, CallTimeouts, CompileContext, Exchange, Flow, Gateway, Io,
    Lifecycle, LocalFuture, OnAccess, Place, Plugin, PluginDef, Registry, Services, StartedPlugins, Task,
    UpstreamChoice, WorkerPlace,
};
use model::ConfigError;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stdx::WorkerToken;

/// Lets requests pass that name somebody from a list, which it fetches every 30 seconds.
struct Trusting(Arc<Mutex<String>>);

impl Plugin for Trusting {
    type Config = Value;

    fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self(Arc::default()))
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        let list = Arc::clone(&self.0);
        vec![Background::every("trusted names", Place::Process, Duration::from_secs(30), move |services| {
            let list = Arc::clone(&list);
            Box::pin(async move {
                let timeouts = CallTimeouts::all(Duration::from_secs(3));
                let call = Call::new("GET", "names.internal", "/", timeouts).expect("a valid request");
                let answer = services.call(&UpstreamChoice::Id("names".into()), call).await;
                // A list that can't be fetched stays as it is.
                if let Ok(answer) = answer
                    && let Ok((200, _, body)) = answer.collect(1024).await
                {
                    *list.lock().expect("no panic") = String::from_utf8_lossy(&body).into_owned();
                }
            })
        })]
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

impl OnAccess for Trusting {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let name =
            String::from_utf8_lossy(exchange.request.header(b"x-name").unwrap_or_default()).into_owned();
        let known = self.0.lock().expect("no panic").lines().any(|line| line == name);
        if known { Flow::Next } else { Flow::status(403) }
    }
}

/// Services that keep the tasks, and whose time passes when the test says so.
#[derive(Debug, Default)]
struct Paced {
    fake: FakeServices,
    seconds: Rc<Cell<u64>>,
    tasks: Tasks,
}

#[derive(Default)]
struct Tasks(RefCell<Vec<LocalFuture<()>>>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks", self.0.borrow().len())
    }
}

impl Paced {
    /// Lets time pass, gives every task a turn, and says how many go on.
    fn pass(&self, seconds: u64) -> usize {
        self.seconds.set(self.seconds.get() + seconds);
        let mut tasks = self.tasks.0.take();
        tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let left = tasks.len();
        self.tasks.0.replace(tasks);
        left
    }
}

impl Services for Paced {
    fn sleep(&self, time: Duration) -> LocalFuture<()> {
        let (seconds, until) = (Rc::clone(&self.seconds), self.seconds.get() + time.as_secs());
        Box::pin(poll_fn(move |_| if seconds.get() >= until { Poll::Ready(()) } else { Poll::Pending }))
    }

    fn call(&self, to: &UpstreamChoice, call: Call) -> LocalFuture<Result<Answer, CallError>> {
        self.fake.call(to, call)
    }

    fn connect(&self, to: &UpstreamChoice, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        self.fake.connect(to, timeout)
    }

    fn connect_unix(&self, path: &Path, timeout: Duration) -> LocalFuture<Result<Box<dyn Io>, CallError>> {
        self.fake.connect_unix(path, timeout)
    }

    fn spawn(&self, task: LocalFuture<()>) -> Task {
        self.tasks.0.borrow_mut().push(task);
        Task::new(|| {})
    }
}

#[test]
fn tasks_run_for_as_long_as_their_configuration_is_in_use() {
    let def = PluginDef::new::<Trusting>("trusting", 1).on_access().build();
    let registry = Registry::new([def], Map::new()).expect("a valid schema");
    let chain = testkit::chain(&registry, &json!({"trusting": {}})).expect("valid");
    let paced = Rc::new(Paced::default());
    let services: Rc<dyn Services> = Rc::clone(&paced) as _;
    assert_eq!(paced.pass(0), 0, "compiling starts nothing");
    let copy = chain.plugins().next().expect("one plugin").clone();
    let tasks = copy.background().expect("it has a task");
    assert!(tasks.start(Place::EachWorker, &services).is_empty());
    assert_eq!(paced.pass(0), 0);
    assert_eq!(tasks.start(Place::Process, &services).len(), 1);
    paced.fake.answer(200, &[], "eve\nadam");
    assert_eq!(paced.pass(0), 1);
    let bench = Bench::new("GET /\nX-Name: adam");
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
    assert_eq!((paced.pass(29), paced.fake.calls().len()), (1, 1));
    assert_eq!((paced.pass(1), paced.fake.calls().len()), (1, 1), "and fails, since nothing answers");
    assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0, "the earlier list stays");
    drop(chain);
    assert_eq!(paced.pass(0), 1, "a copy is left");
    drop(copy);
    assert_eq!((paced.pass(60), paced.fake.calls().len()), (0, 0));
}

#[test]
fn the_end_of_a_configuration_wakes_its_tasks_from_any_thread() {
    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let forever = Background::new("forever", Place::EachWorker, |_| Box::pin(std::future::pending()));
    let tasks = crate::BackgroundTasks::new(vec![forever]).expect("one task");
    let paced = Rc::new(Paced::default());
    let _handles = tasks.start(Place::EachWorker, &(Rc::clone(&paced) as Rc<dyn Services>));
    let mut task = paced.tasks.0.borrow_mut().pop().expect("it was started");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    std::thread::spawn(move || drop(tasks)).join().expect("no panic");
    assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn plugins_start_and_stop_with_process_and_workers() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let def = |name: &'static str, version: u64, usable: bool| {
        let note = |what: &'static str| {
            let log = Arc::clone(&log);
            move || log.lock().expect("no panic").push(format!("{what} {name} {version}"))
        };
        let (started, stopped, up, down) = (note("start"), note("stop"), note("up"), note("down"));
        let lifecycle = Lifecycle {
            process_start: Some(Box::new(move |_| {
                started();
                if usable { Ok(()) } else { Err("its library is missing".to_owned()) }
            })),
            process_stop: Some(Box::new(move |_| stopped())),
            worker_start: Some(Box::new(move |_| up())),
            worker_stop: Some(Box::new(move |_| down())),
        };
        let mut def = PluginDef::new::<Trusting>(name, 1).lifecycle(lifecycle).build();
        def.version = version;
        def
    };
    let said = || std::mem::take(&mut *log.lock().expect("no panic")).join(", ");
    let (gateway, worker) = (Gateway::default(), WorkerToken::claim().expect("a token"));
    let services: Rc<dyn Services> = Rc::new(FakeServices::default());
    let place = WorkerPlace { gateway: &gateway, worker: &worker, services: &services };
    let registry = |defs: Vec<PluginDef>| Arc::new(Registry::new(defs, Map::new()).expect("valid"));
    let (mut process, mut on_worker) = (StartedPlugins::default(), StartedPlugins::default());
    let before = registry(vec![def("a", 1, true), def("b", 1, true)]);
    for _ in 0..2 {
        assert_eq!(process.start_process(&before, &gateway), Ok(()));
        on_worker.start_worker(&before, place);
    }
    assert_eq!(said(), "start a 1, start b 1, up a 1, up b 1");
    let after = registry(vec![def("a", 2, true), def("b", 1, true)]);
    assert_eq!(process.start_process(&after, &gateway), Ok(()));
    on_worker.start_worker(&after, place);
    assert_eq!(said(), "start a 2, up a 2");
    let sweep = |process: &mut StartedPlugins, on_worker: &mut StartedPlugins| {
        process.stop_process(&gateway);
        on_worker.stop_worker(place);
        said()
    };
    assert_eq!(sweep(&mut process, &mut on_worker), "", "what the registry before compiled may be in use");
    assert!(process.has_leftovers() && on_worker.has_leftovers());
    drop(before);
    assert_eq!(sweep(&mut process, &mut on_worker), "down a 1", "the worker comes first");
    assert_eq!(sweep(&mut process, &mut on_worker), "stop a 1");
    assert!(!process.has_leftovers() && !on_worker.has_leftovers());
    // One that is refused leaves everything as it was.
    let broken = registry(vec![def("d", 1, true), def("c", 1, false)]);
    let errors = process.start_process(&broken, &gateway).expect_err("refused");
    assert_eq!((errors[0].path.as_str(), errors[0].message.as_str()), ("c", "its library is missing"));
    assert_eq!(said(), "start c 1, start d 1, stop d 1");
    assert!(!process.has_leftovers());
    // One that leaves and comes back while its first form is in use goes on.
    let without = registry(vec![def("b", 1, true)]);
    assert_eq!(process.start_process(&without, &gateway), Ok(()));
    assert!(process.has_leftovers());
    let again = registry(vec![def("a", 2, true), def("b", 1, true)]);
    assert_eq!(process.start_process(&again, &gateway), Ok(()));
    drop((after, without));
    process.stop_process(&gateway);
    assert_eq!(said(), "");
    on_worker.end_worker(place);
    process.end_process(&gateway);
    assert_eq!(said(), "down b 1, down a 2, stop b 1, stop a 2");
}

#[test]
fn a_lifecycle_hook_that_panics_harms_nobody_else() {
    let def = |name: &'static str| {
        let lifecycle = Lifecycle {
            process_start: Some(Box::new(move |_| if name == "b" { panic!("no") } else { Ok(()) })),
            worker_start: Some(Box::new(|_| panic!("no"))),
            worker_stop: Some(Box::new(|_| panic!("no"))),
            process_stop: Some(Box::new(|_| panic!("no"))),
        };
        PluginDef::new::<Trusting>(name, 1).lifecycle(lifecycle).build()
    };
    let (gateway, worker) = (Gateway::default(), WorkerToken::claim().expect("a token"));
    let services: Rc<dyn Services> = Rc::new(FakeServices::default());
    let place = WorkerPlace { gateway: &gateway, worker: &worker, services: &services };
    let registry = Arc::new(Registry::new([def("a"), def("b")], Map::new()).expect("valid"));
    let mut started = StartedPlugins::default();
    let errors = started.start_process(&registry, &gateway).expect_err("one panics");
    assert_eq!((errors[0].path.as_str(), errors[0].message.as_str()), ("b", "panicked: no"));
    started.start_worker(&registry, place);
    started.end_worker(place);
}

#[test]
fn a_task_that_panics_is_started_again() {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let runs = Arc::clone(&count);
    let task = Background::new("failing", Place::Process, move |_| {
        let run = runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(run != 0, "while it is made");
        Box::pin(async move { assert!(run != 1, "while it runs") })
    });
    let tasks = crate::BackgroundTasks::new(vec![task]).expect("one task");
    let paced = Rc::new(Paced::default());
    let _handles = tasks.start(Place::Process, &(Rc::clone(&paced) as Rc<dyn Services>));
    let runs = || count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((paced.pass(0), runs()), (1, 1));
    assert_eq!((paced.pass(9), runs()), (1, 1));
    assert_eq!((paced.pass(1), runs()), (1, 2));
    assert_eq!((paced.pass(10), runs()), (0, 3), "and ends");
}
