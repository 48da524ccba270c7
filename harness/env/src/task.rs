//! Async code as a node: a small executor that a driver steps as it does any other node.
//!
//! A client that retries, times out and does several things at once reads best as async code. [`Tasks`] lets it be that
//! and still be a state machine: events come in, tasks that wait for them go on, in an order that depends on nothing but
//! the events, and what the tasks did comes out as effects. There is no thread, no clock and no reactor; time is what the
//! driver says it is.
//!
//! ```text
//!   step      notes an event: bytes for a connection, a wake-up
//!   settle    polls every task that was woken, in the order in which they were woken, until none is; then hands out
//!             what they sent and asks to be woken for the earliest of their sleeps
//! ```
//!
//! Tasks reach the world through [`Io`]. What they share among themselves they share by `Rc`: all run on one thread.
//!
//! What it cannot do: listen for connections, and use a disk. Clients need neither.

mod io;

pub use io::{Cancelled, Conn, First, Inbox, Io, Refused, Signal, TaskHandle, first};

use crate::node::{Effect, Effects, Env, Event, Node};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// A future that needs no thread but its own.
type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A node whose tasks were polled so often in one settle does not come to rest: two of them wake each other for ever.
const MAX_POLLS: u32 = 100_000;

type Main = Box<dyn FnOnce(Io) -> LocalFuture>;

/// The ids of tasks that were woken, in that order. A waker has to be fit for threads, though none is there.
type Woken = Arc<Mutex<Vec<u64>>>;

struct Flag {
    id: u64,
    is_woken: AtomicBool,
    woken: Woken,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.woken.lock().expect("no holder panics").push(self.id);
        }
    }
}

struct Task {
    future: LocalFuture,
    flag: Arc<Flag>,
    waker: Waker,
}

/// A node that is a set of tasks; see the module.
pub struct Tasks {
    main: Option<Main>,
    io: Io,
    tasks: BTreeMap<u64, Task>,
    woken: Woken,
    /// The wake-up that the driver was asked for last.
    asked_ns: Option<u64>,
}

impl Tasks {
    /// A node that runs `main` from its start, and the tasks which that spawns. It goes on for as long as one of them does,
    /// and is quiet afterwards.
    pub fn new<F: Future<Output = ()> + 'static>(main: impl FnOnce(Io) -> F + 'static) -> Tasks {
        Tasks {
            main: Some(Box::new(|io| Box::pin(main(io)))),
            io: Io::new(),
            tasks: BTreeMap::new(),
            woken: Woken::default(),
            asked_ns: None,
        }
    }

    fn adopt(&mut self) {
        let spawned = self.io.shared().take_spawned();
        for (id, future) in spawned {
            let flag =
                Arc::new(Flag { id, is_woken: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
            flag.wake_by_ref();
            let waker = Waker::from(Arc::clone(&flag));
            self.tasks.insert(id, Task { future, flag, waker });
        }
    }

    fn bury(&mut self) {
        // A task's own values may spawn, cancel or close as they are dropped: the state is not borrowed meanwhile.
        loop {
            let cancelled = self.io.shared().take_cancelled();
            if cancelled.is_empty() {
                return;
            }
            for id in cancelled {
                let task = self.tasks.remove(&id);
                drop(task);
            }
        }
    }

    /// Panics: the tasks do not come to rest.
    fn run(&mut self) {
        let mut polls = 0;
        loop {
            self.adopt();
            self.bury();
            let woken = std::mem::take(&mut *self.woken.lock().expect("no holder panics"));
            if woken.is_empty() {
                return;
            }
            for id in woken {
                let Some(task) = self.tasks.get_mut(&id) else { continue };
                polls += 1;
                assert!(
                    polls <= MAX_POLLS,
                    "tasks do not come to rest: they wake each other without an event"
                );
                task.flag.is_woken.store(false, Ordering::Relaxed);
                if task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
                    let task = self.tasks.remove(&id);
                    drop(task);
                }
                self.bury();
            }
        }
    }
}

impl Node for Tasks {
    fn step(&mut self, now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects) {
        self.io.shared().set_time(now_ns, env.wall_clock_ms());
        match event {
            Event::Start => {
                self.io.shared().seed(env.random_u64("tasks"));
                if let Some(main) = self.main.take() {
                    let future = main(self.io.clone());
                    self.io.shared().spawn(future);
                }
            }
            Event::Connected { conn } => self.io.shared().connected(conn),
            Event::Received { conn, bytes } => self.io.shared().received(conn, bytes),
            Event::Closed { conn } => self.io.shared().closed(conn),
            // It listens nowhere.
            Event::Accepted { conn, .. } => effects.push(Effect::Close { conn }),
            Event::Drained { .. } => {}
            Event::Wake => self.asked_ns = None,
            Event::Stop => {
                self.tasks.clear();
                effects.push(Effect::Exit { status: 0 });
            }
        }
    }

    fn settle(&mut self, now_ns: u64, env: &mut dyn Env, effects: &mut Effects) {
        self.io.shared().set_time(now_ns, env.wall_clock_ms());
        self.io.shared().fire_timers();
        self.run();
        let mut shared = self.io.shared();
        for (level, line) in shared.take_log() {
            env.log(level, module_path!(), format_args!("{line}"));
        }
        effects.append(&mut shared.take_effects());
        let next_ns = shared.next_timer_ns();
        if let Some(at_ns) = next_ns
            && self.asked_ns != next_ns
        {
            self.asked_ns = next_ns;
            effects.push(Effect::WakeAt { at_ns });
        }
    }
}

impl Drop for Tasks {
    /// Tasks hold [`Io`]s, and one in the state's list of new tasks would hold itself.
    fn drop(&mut self) {
        self.tasks.clear();
        let spawned = self.io.shared().take_spawned();
        drop(spawned);
    }
}

#[cfg(test)]
mod tests;
