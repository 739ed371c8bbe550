//! What plugins have running on a worker beside its exchanges: their background tasks, and whether they have started.

use plugin::{BackgroundTasks, Place, Services, StartedPlugins, Task, WorkerPlace};
use snapshot::Snapshot;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// The plugins of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerPlugins {
    /// Whether the process's tasks run here as well.
    runs_process_tasks: bool,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    started: StartedPlugins,
    tasks: Vec<Running>,
}

/// The tasks of one configuration that run here.
#[derive(Debug)]
struct Running {
    /// Weak, because the configuration ends with its last exchange.
    of: Weak<BackgroundTasks>,
    _handles: Vec<Task>,
}

impl WorkerPlugins {
    /// The plugins of the worker with this number: the process's tasks run on the first one.
    pub(crate) fn of_worker(number: usize) -> Self {
        Self { runs_process_tasks: number == 0, ..Self::default() }
    }

    /// Starts what the snapshot has that `current` gives, and what does not run yet.
    pub(crate) fn adopt(&self, place: WorkerPlace<'_>, current: impl Fn() -> Rc<Arc<Snapshot>>) {
        // A hook that asks for the snapshot may find another one, and come here again: the loop sees that one too.
        let Ok(mut state) = self.state.try_borrow_mut() else { return };
        loop {
            let snapshot = current();
            state.started.start_worker(&snapshot.registry, place);
            state.start_tasks(place.services, &snapshot, self.runs_process_tasks);
            if Rc::ptr_eq(&snapshot, &current()) {
                return;
            }
        }
    }

    /// Stops plugins that nothing uses any more. Called with every tick.
    pub(crate) fn sweep(&self, place: WorkerPlace<'_>) {
        let Ok(mut state) = self.state.try_borrow_mut() else { return };
        if state.started.has_leftovers() {
            state.started.stop_worker(place);
        }
        state.tasks.retain(|running| running.of.strong_count() > 0);
    }

    /// Ends all tasks, then all plugins: the worker ends.
    pub(crate) async fn end(&self, place: WorkerPlace<'_>) {
        self.state.borrow_mut().tasks.clear();
        // Tasks are dropped when it is their turn.
        tokio::task::yield_now().await;
        self.state.borrow_mut().started.end_worker(place);
    }
}

impl State {
    fn start_tasks(&mut self, services: &Rc<dyn Services>, snapshot: &Snapshot, process: bool) {
        if snapshot.background.is_empty() {
            return;
        }
        let running: HashSet<_> = self.tasks.iter().map(|running| running.of.as_ptr()).collect();
        let declared = snapshot.background.iter().flat_map(|(_, tasks)| &**tasks);
        for tasks in declared.filter(|tasks| !running.contains(&Arc::as_ptr(tasks))) {
            let mut handles = tasks.start(Place::EachWorker, services);
            if process {
                handles.extend(tasks.start(Place::Process, services));
            }
            self.tasks.push(Running { of: Arc::downgrade(tasks), _handles: handles });
        }
    }
}
