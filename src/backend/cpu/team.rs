//! The threads that share an operation's tasks: the one that calls it and others that wait for it.
//!
//! An encapsulation is some ten operations of which the short ones take microseconds, so that what counts is how soon the
//! others begin and how soon the caller knows that they are done. The caller works itself (one thread alone needs no
//! other), the others look for work for a while before they sleep, and who comes late finds the gate closed and delays
//! nobody. Nothing is allocated. Through a pool of Rayon's the same operations took 6 µs to 75 µs each to begin and end.

use std::{
    any::Any,
    cell::UnsafeCell,
    hint,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::machine;

/// How long a thread with a core of its own looks for work before it sleeps.
const PATIENCE: Duration = Duration::from_millis(1);

/// Threads and the loop that they share.
pub(super) struct Team {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<()>>,
    /// Held while a loop runs: there is one at a time.
    turn: Mutex<()>,
}

/// What all threads of a team see.
struct Shared {
    /// Counts loops: a change is a new loop, or the end.
    loops: AtomicUsize,
    /// Other threads at work in the loop, and [`CLOSED`] while none may join them.
    gate: AtomicUsize,
    /// The next task that nobody has taken.
    next: AtomicUsize,
    ended: AtomicBool,
    /// Other threads that have begun to serve.
    serving: AtomicUsize,
    /// The loop that runs. Written only while the gate is closed and nobody is inside.
    work: UnsafeCell<Option<Work>>,
    /// What another thread panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    patience: Duration,
}

// SAFETY: `work` is read only by threads inside the gate, and written only by the caller that holds the turn, while the
// gate is closed and nobody is inside; the gate orders both. Everything else is synchronized by itself.
unsafe impl Sync for Shared {}
// SAFETY: a `Work` may be sent to the threads that run it, as its function is `Sync`.
unsafe impl Send for Shared {}

/// The gate's mark that no thread may join the loop.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// A loop: its function of thread and task, with its lifetime forgotten, and the number of tasks.
#[derive(Clone, Copy)]
struct Work {
    function: *const (dyn Fn(usize, usize) + Sync),
    tasks: usize,
}

impl Team {
    /// The calling thread and `threads` − 1 others, each kept on its core of `cores`, on none where that is empty.
    ///
    /// # Errors
    /// The system's, where it refuses a thread.
    pub(super) fn new(threads: usize, cores: &[usize]) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            loops: AtomicUsize::new(0),
            gate: AtomicUsize::new(CLOSED),
            next: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            serving: AtomicUsize::new(0),
            work: UnsafeCell::new(None),
            panic: Mutex::new(None),
            // Without a core of its own a thread that looks for work may keep another from working.
            patience: if cores.is_empty() { Duration::ZERO } else { PATIENCE },
        });
        let mut team = Team { shared, others: Vec::new(), turn: Mutex::new(()) };
        for index in 1..threads {
            let shared = team.shared.clone();
            let core = cores.get(index).copied();
            team.others.push(thread::Builder::new().name(format!("cpu-{index}")).spawn(move || {
                core.into_iter().for_each(machine::stay_on);
                shared.serve(index);
            })?);
        }
        // What the system does to start a thread is over before the first loop.
        while team.shared.serving.load(Ordering::Acquire) < team.others.len() {
            thread::yield_now();
        }
        cores.iter().take(1).copied().for_each(machine::stay_on);
        Ok(team)
    }

    pub(super) fn threads(&self) -> usize {
        self.others.len() + 1
    }

    /// Calls `work(thread, task)` for every task below `tasks`, each once, on any thread of the team; returns when all
    /// are done. A thread has one task at a time. The calling thread has the number 0.
    ///
    /// A task must not call this: it would wait for itself.
    ///
    /// # Panics
    /// Where a task does, after all threads have left the loop.
    pub(super) fn run(&self, tasks: usize, work: impl Fn(usize, usize) + Sync) {
        if tasks <= 1 || self.others.is_empty() {
            // Threads that share one team from outside take turns here too: work space belongs to thread numbers.
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            return (0..tasks).for_each(|task| work(0, task));
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let function: &(dyn Fn(usize, usize) + Sync) = &work;
        // SAFETY: only the lifetime changes. No thread uses the function after it has left the gate, and `Leave` keeps
        // this call from returning or unwinding before all have.
        let function: &'static (dyn Fn(usize, usize) + Sync) = unsafe { std::mem::transmute(function) };
        let shared = &*self.shared;
        // SAFETY: the gate is closed and nobody is inside: the last loop ended so, and this one has the turn.
        unsafe { *shared.work.get() = Some(Work { function, tasks }) };
        shared.next.store(0, Ordering::Relaxed);
        shared.gate.store(0, Ordering::Release);
        shared.loops.fetch_add(1, Ordering::Release);
        let leave = Leave(shared);
        self.others.iter().take(tasks - 1).for_each(|other| other.thread().unpark());
        shared.take_tasks(0, &work, tasks);
        drop(leave);
        drop(turn);
        if let Some(panic) = shared.take_panic() {
            panic::resume_unwind(panic);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.loops.fetch_add(1, Ordering::Release);
        for other in self.others.drain(..) {
            other.thread().unpark();
            // A panic outside of tasks has been reported where it happened.
            let _ = other.join();
        }
    }
}

/// Closes the gate and waits until nobody is inside, however the loop ends.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_or(CLOSED, Ordering::Relaxed);
        let start = Instant::now();
        while self.0.gate.load(Ordering::Acquire) != CLOSED {
            pause(start, self.0.patience);
        }
        if thread::panicking() {
            // The caller's own panic goes on; another thread's must not reach a later loop.
            self.0.take_panic();
        }
    }
}

/// A short wait: on the processor at first, then leaving it to others.
fn pause(start: Instant, patience: Duration) {
    for _ in 0..16 {
        hint::spin_loop();
    }
    if start.elapsed() > patience {
        thread::yield_now();
    }
}

impl Shared {
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn take_tasks(&self, thread: usize, work: impl Fn(usize, usize), tasks: usize) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            work(thread, task);
        }
    }

    /// The life of another thread.
    fn serve(&self, thread: usize) {
        self.serving.fetch_add(1, Ordering::Release);
        let mut seen = 0;
        loop {
            let start = Instant::now();
            while self.loops.load(Ordering::Acquire) == seen {
                if start.elapsed() < self.patience {
                    (0..16).for_each(|_| hint::spin_loop());
                } else {
                    // A loop that began since the look above has left a token, with which this returns at once.
                    thread::park();
                }
            }
            seen = self.loops.load(Ordering::Acquire);
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let open = |gate: usize| (gate & CLOSED == 0).then_some(gate + 1);
            if self.gate.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_err() {
                continue;
            }
            // SAFETY: inside the gate: the work is there and is not written.
            let Work { function, tasks } = unsafe { *self.work.get() }.expect("an open gate has work behind it");
            // SAFETY: inside the gate: its caller has not returned.
            let function = unsafe { &*function };
            let done = panic::catch_unwind(AssertUnwindSafe(|| self.take_tasks(thread, function, tasks)));
            if let Err(panic) = done {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_task_is_done_once_on_a_thread_of_the_team() {
        let core = machine::cores()[0];
        for (threads, cores) in [(1, &[][..]), (2, &[]), (3, &[]), (2, &[core, core])] {
            // A team keeps the thread that makes it on its core: not this one.
            let made = thread::scope(|scope| scope.spawn(|| Team::new(threads, cores)).join());
            let team = made.unwrap().unwrap();
            for tasks in [0, 1, 2, 7, 1000] {
                let done: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                let busy: Vec<_> = (0..threads).map(|_| AtomicBool::new(false)).collect();
                team.run(tasks, |thread, task| {
                    assert!(!busy[thread].swap(true, Ordering::Relaxed), "one task at a time");
                    done[task].fetch_add(1, Ordering::Relaxed);
                    busy[thread].store(false, Ordering::Relaxed);
                });
                assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_short_loops_from_several_callers_are_complete() {
        let team = Team::new(3, &[]).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for tasks in 0..2000 {
                        let sum = AtomicUsize::new(0);
                        team.run(tasks % 9, |_, task| {
                            sum.fetch_add(task + 1, Ordering::Relaxed);
                        });
                        let tasks = tasks % 9;
                        assert_eq!(sum.into_inner(), tasks * (tasks + 1) / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let team = Team::new(2, &[]).unwrap();
        for wrong in 0..4 {
            let run = AssertUnwindSafe(|| team.run(4, |_, task| assert_ne!(task, wrong)));
            assert!(panic::catch_unwind(run).is_err());
            team.run(4, |_, _| ());
        }
    }

    /// Both threads panic, each in the task that it holds while the other has the other one.
    #[test]
    fn panics_of_two_threads_end_with_their_loop() {
        let team = Team::new(2, &[]).unwrap();
        let both = Barrier::new(2);
        let run = AssertUnwindSafe(|| {
            team.run(2, |_, _| {
                both.wait();
                panic!("on purpose");
            });
        });
        assert!(panic::catch_unwind(run).is_err());
        team.run(4, |_, _| ());
    }
}
