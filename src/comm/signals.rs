//! SIGTERM: how launchers end the other ranks when one was killed. mpirun names the rank, but not what the job did;
//! the first rank of its host that lives says so. Where a rank ended the job itself, its own line is the only one.

use std::{
    fs,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::libc;
use signal_hook::{consts::SIGTERM, flag, iterator::Signals, low_level::emulate_default_handler};

use super::ending;

/// How long the rank that would speak waits for the word of another.
const LOOK: Duration = Duration::from_millis(100);
/// How long silent ranks outlive the signal, so that the one that speaks finds only the killed ones gone. mpirun
/// waits for a second before it kills.
const OUTLIVE: Duration = Duration::from_millis(500);

static NEIGHBOURS: OnceLock<Vec<Neighbour>> = OnceLock::new();
/// It is said, or needs no word, why the job ends.
static SAID: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Another rank of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub rank: usize,
    pub pid: libc::pid_t,
}

/// "I have said why the job ends": a signal without other users.
fn said() -> i32 {
    libc::SIGRTMIN() + 9
}

/// Heeds [`said`], which would end this process: call it before others learn this process's number.
pub(super) fn listen() {
    // It fails for no signal that may be caught.
    let _ = flag::register(said(), SAID.clone());
}

/// From here on SIGTERM ends this process as ever; where ranks of this host are gone without a word, the first one
/// that lives says one line before. `neighbours` are the other ranks of this host.
pub(super) fn say_when_ended(rank: usize, neighbours: Vec<Neighbour>) {
    if neighbours.is_empty() {
        return;
    }
    let neighbours = NEIGHBOURS.get_or_init(|| neighbours);
    let Ok(mut signals) = Signals::new([SIGTERM]) else { return };
    let watch = move || {
        for _ in signals.forever() {
            // At once, before others end of the same signal.
            let gone: Vec<usize> =
                neighbours.iter().filter(|other| !lives(other.pid)).map(|other| other.rank).collect();
            let first = neighbours.iter().all(|other| other.rank > rank || gone.contains(&other.rank));
            thread::sleep(LOOK);
            if first && !gone.is_empty() && !SAID.load(Ordering::SeqCst) {
                silence_neighbours();
                ending::say(&message(&gone));
            } else {
                thread::sleep(OUTLIVE - LOOK);
            }
            // Ends the process.
            let _ = emulate_default_handler(SIGTERM);
        }
    };
    // Without the thread the signal ends the process in silence, as it does by default.
    let _ = thread::Builder::new().name("signals".into()).spawn(watch);
}

/// From here on this rank has nothing to say: the job ends in good order.
pub(super) fn be_silent() {
    SAID.store(true, Ordering::SeqCst);
}

/// Tells the other ranks of this host that the line about the job's end is out.
pub(super) fn silence_neighbours() {
    for neighbour in NEIGHBOURS.get().into_iter().flatten() {
        // SAFETY: `kill` takes any numbers; a process that is gone is an error that changes nothing.
        unsafe { libc::kill(neighbour.pid, said()) };
    }
}

fn message(gone: &[usize]) -> String {
    match gone {
        [rank] => format!("ended by SIGTERM: rank {rank} of this host is gone"),
        ranks => {
            let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
            format!("ended by SIGTERM: ranks {} of this host are gone", ranks.join(", "))
        }
    }
}

/// Whether the process runs: it is there and no zombie.
fn lives(pid: libc::pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the command's name in brackets, which may itself hold brackets.
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next())
        .is_some_and(|state| !"ZXx".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_live_until_they_end() {
        assert!(lives(std::process::id() as libc::pid_t));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as libc::pid_t;
        // A zombie until it is waited for; whichever it is, it does not live.
        while lives(pid) {
            thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!lives(pid));
    }

    #[test]
    fn the_line_names_who_is_gone() {
        assert!(message(&[1]).contains("rank 1 of this host is gone"));
        assert!(message(&[1, 2]).contains("ranks 1, 2 of this host are gone"));
    }
}
