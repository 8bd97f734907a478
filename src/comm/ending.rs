//! How a job ends early: one line that names rank, host and phase, then the end of all ranks.

use std::{
    io::Write,
    panic::PanicHookInfo,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::{launcher, signals};
use crate::machine;

/// The exit code of a panic, as Rust's own.
const PANIC_CODE: i32 = 101;
/// How long MPI may take to end this process after the line is out.
const GRACE: Duration = Duration::from_secs(5);

static CONTEXT: Mutex<Option<Context>> = Mutex::new(None);
static PHASE: Mutex<&'static str> = Mutex::new("start");
static ENDING: AtomicBool = AtomicBool::new(false);

/// Who this process is. Global, as a panic may come on any thread.
#[derive(Clone)]
struct Context {
    rank: usize,
    host: String,
    end: fn(i32) -> !,
}

/// Locks are held for one copy, which cannot panic: a panic's own line never waits for one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn set_context(rank: usize, host: String, end: fn(i32) -> !) {
    *lock(&CONTEXT) = Some(Context { rank, host, end });
}

pub(super) fn set_phase(phase: &'static str) {
    *lock(&PHASE) = phase;
}

pub(super) fn phase() -> &'static str {
    *lock(&PHASE)
}

/// Writes `message` as one line, in one write so that the lines of ranks do not mix. Nobody listening is no error.
pub(super) fn say(message: &str) {
    let context = lock(&CONTEXT).clone();
    let (rank, host) = match context {
        Some(context) => (context.rank, context.host),
        None => (launcher::rank(launcher::environment).unwrap_or(0), machine::host_name()),
    };
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("lwe-mpi: rank {rank} on {host}, phase {}: {message}\n", phase());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Ends all ranks with the exit code `code` after one line on stderr:
/// `lwe-mpi: rank 1 on HOST, phase encaps: MESSAGE`.
///
/// It may be called at any time and from any thread, also where [`super::Comm::start`] or [`super::Comm::finish`]
/// failed; the first call of a process wins.
pub fn abort(code: i32, message: &str) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        loop {
            thread::park();
        }
    }
    signals::be_silent();
    say(message);
    signals::silence_neighbours();
    let _limit = Watchdog::arm(GRACE, code, None);
    let end = lock(&CONTEXT).as_ref().map_or(std::process::exit as fn(i32) -> !, |context| context.end);
    end(code)
}

/// From here on a panic on any thread ends all ranks with code 101 after one line:
/// `lwe-mpi: rank 1 on HOST, phase encaps: panic at FILE:LINE: MESSAGE`.
///
/// Call it right after [`super::Comm::start`]: a rank that unwinds instead leaves the others waiting for it.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| abort(PANIC_CODE, &panic_message(info))));
}

fn panic_message(info: &PanicHookInfo) -> String {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    match info.location() {
        Some(at) => format!("panic at {}:{}: {message}", at.file(), at.line()),
        None => format!("panic: {message}"),
    }
}

/// Ends this process alone, with one line, if it is not dropped in time: for calls into MPI that cannot be polled.
pub(super) struct Watchdog {
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    pub(super) fn arm(limit: Duration, code: i32, message: Option<String>) -> Watchdog {
        let (alive, dropped) = mpsc::channel();
        let watch = move || {
            if dropped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(message) = message {
                    say(&message);
                }
                // SAFETY: `_exit` takes any code and does not return. Handlers of `exit` are not run on purpose:
                // MPI's may hang.
                unsafe { nix::libc::_exit(code) }
            }
        };
        // Without a thread the call goes unwatched: no reason to give up a job.
        let _ = thread::Builder::new().name("watchdog".into()).spawn(watch);
        Watchdog { _alive: alive }
    }
}
