//! What plugins do beside exchanges: tasks of configurations, the start and the end of process and workers.

use crate::testkit::{self, Bench, FakeServices};
use crate::{
    Answer, Background, Call, CallError, CallTimeouts, CompileContext, Exchange, Flow, Gateway, Io,
    Lifecycle, LocalFuture, OnAccess, Place, Plugin, PluginDef, Registry, Services, Task, UpstreamChoice,
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
    tasks.start(Place::EachWorker, &services);
    assert_eq!(paced.pass(0), 0);
    tasks.start(Place::Process, &services);
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
    tasks.start(Place::EachWorker, &(Rc::clone(&paced) as Rc<dyn Services>));
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
    let before = Registry::new([def("a", 1, true), def("b", 1, true)], Map::new()).expect("valid");
    assert_eq!(before.start_process(None, &gateway), Ok(()));
    before.start_worker(None, &gateway, &worker, &services);
    assert_eq!(said(), "start a 1, start b 1, up a 1, up b 1");
    let after = Registry::new([def("a", 2, true), def("b", 1, true)], Map::new()).expect("valid");
    assert_eq!(after.start_process(Some(&before), &gateway), Ok(()));
    after.start_worker(Some(&before), &gateway, &worker, &services);
    before.stop_worker(Some(&after), &gateway, &worker, &services);
    before.stop_process(Some(&after), &gateway);
    assert_eq!(said(), "start a 2, up a 2, down a 1, stop a 1");
    let broken = Registry::new([def("c", 1, false)], Map::new()).expect("valid");
    let errors = broken.start_process(None, &gateway).expect_err("refused");
    assert_eq!((errors[0].path.as_str(), errors[0].message.as_str()), ("c", "its library is missing"));
}
