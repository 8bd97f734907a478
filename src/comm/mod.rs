//! The ranks of a job: who they are, how they talk, and how the job ends when one of them fails.
//!
//! [`Comm`] is the world of ranks. It sits on a private transport: MPI through rsmpi with the feature `mpi`, or a world
//! of one rank in this process. MPI 3.1, chapters 3 (point-to-point), 5.12 (non-blocking collectives) and 8.7
//! (start and end).
//!
//! Every wait polls, so that no rank ever hangs inside MPI on a peer that is gone: while it polls, a rank sends signs
//! of life and judges those of others (`pulse`). A rank that computes calls [`Comm::progress`] between batches; a batch
//! must be shorter than the time-out.
//!
//! An error of any function here leaves messages half done. The only way on is [`abort`].

mod collective;
mod ending;
pub mod launcher;
#[cfg(feature = "mpi")]
mod mpi;
mod pulse;
mod signals;
mod single;

use std::{cell::RefCell, time::Duration};

pub use ending::{abort, install_panic_hook};

use crate::{
    error::{Error, Result},
    machine,
};
use pulse::Pulse;
use signals::Neighbour;

/// The most bytes that one MPI call moves; far below MPI's limit of 2³¹ − 1.
pub const PIECE_BYTES: usize = 4 << 20;
/// Tags of [`Comm::send`] and [`Comm::recv`] are below this. MPI grants 32767 (MPI 3.1, 8.1.2); the rest is reserved.
pub const TAGS: u16 = 16384;
/// The shortest time-out: below it, a busy machine's scheduling looks like death.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Messages of the collective operations. One tag is enough: all ranks call them in the same order.
const TAG_COLLECTIVE: u16 = TAGS;
/// Signs of life (no byte) and goodbyes (one byte).
const TAG_PULSE: u16 = TAGS + 1;
/// How often [`Comm::progress`] turns MPI's engine: a large message needs several turns, each well below 10 µs.
const PROGRESS_TURNS: usize = 16;

/// What carries messages between ranks.
trait Transport {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// The library's name and version, in one line.
    fn library(&self) -> String;
    /// Starts to send all of `bytes`, in pieces of at most [`PIECE_BYTES`].
    fn send(&self, to: usize, tag: u16, bytes: Vec<u8>) -> Result<Box<dyn Pending>>;
    /// Starts to fill `buffer` with a message of exactly its length. Messages of one source and tag come in order.
    fn receive(&self, from: usize, tag: u16, buffer: Vec<u8>) -> Result<Box<dyn Pending>>;
    /// Starts a barrier over all ranks.
    fn barrier(&self) -> Result<Box<dyn Pending>>;
    /// Takes a message of at most one byte with [`TAG_PULSE`] that has come: its source and its length in bytes.
    fn take_pulse(&self) -> Result<Option<(usize, usize)>>;
    /// What ends all ranks with an exit code. It may be called from any thread, and after [`Self::finalize`].
    fn abort(&self) -> fn(i32) -> !;
    /// Leaves the world for good; every message must be done.
    fn finalize(&self) -> Result<()>;
}

/// A message or barrier under way. Dropped before it is done, it leaks the buffer, as MPI may still use it.
trait Pending {
    /// Whether it is done; moves it along.
    fn test(&mut self) -> Result<bool>;
    /// The buffer, once [`Self::test`] said true; empty for a barrier.
    fn into_buffer(self: Box<Self>) -> Vec<u8>;
}

/// The world of ranks, as one rank sees it. It stays on the thread that started it.
pub struct Comm {
    transport: Box<dyn Transport>,
    /// By rank; empty until they are gathered.
    hosts: Vec<String>,
    timeout: Duration,
    pulse: RefCell<Pulse>,
}

impl Comm {
    /// Joins the job: starts MPI, checks that the launcher and MPI agree, and learns every rank's host. A process that
    /// no launcher started is a world by itself and starts no MPI, whose helpers (Open MPI's orted) may outlive it.
    ///
    /// `timeout` is how long a rank may be silent before the others give it up.
    ///
    /// # Errors
    /// [`Error::Mpi`] where MPI cannot be used, where it sees one rank and the launcher says more, or where a rank
    /// is silent; [`Error::Usage`] for a time-out below [`MIN_TIMEOUT`]. A start of MPI that does not return within
    /// `timeout` ends this process with code 4.
    pub fn start(timeout: Duration) -> Result<Comm> {
        if timeout < MIN_TIMEOUT {
            return Err(Error::Usage(format!("--timeout: at least {} s", MIN_TIMEOUT.as_secs())));
        }
        #[cfg(feature = "mpi")]
        {
            if !launcher::launched(launcher::names()) {
                return Comm::over(Box::new(single::Single::lone(mpi::library())), timeout);
            }
            let limit =
                ending::Watchdog::arm(timeout, 4, Some(format!("MPI has not started for {} s", seconds(timeout))));
            let transport = mpi::Mpi::start()?;
            drop(limit);
            if let Err(error) = launcher::check(transport.size(), Some(&transport.library()), launcher::environment) {
                transport.finalize()?;
                return Err(error);
            }
            Comm::over(Box::new(transport), timeout)
        }
        #[cfg(not(feature = "mpi"))]
        {
            launcher::check(1, None, launcher::environment)?;
            Comm::over(Box::new(single::Single::default()), timeout)
        }
    }

    /// A world of this process alone, without MPI and whatever the launcher says.
    pub fn alone() -> Comm {
        Comm::over(Box::new(single::Single::default()), MIN_TIMEOUT).expect("a world of one waits for nobody")
    }

    fn over(transport: Box<dyn Transport>, timeout: Duration) -> Result<Comm> {
        let (rank, size) = (transport.rank(), transport.size());
        let host = machine::host_name();
        ending::set_context(rank, host.clone(), transport.abort());
        let pulse = RefCell::new(Pulse::new(rank, size, timeout));
        let mut comm = Comm { transport, hosts: Vec::new(), timeout, pulse };
        if size > 1 {
            signals::listen();
        }
        // A host name has no line break.
        let mine = format!("{} {host}", std::process::id());
        let all = comm.gather(mine.as_bytes())?.unwrap_or_default().join(&b'\n');
        let all = String::from_utf8_lossy(&comm.broadcast(all)?).into_owned();
        let (pids, hosts): (Vec<_>, Vec<_>) = all.split('\n').filter_map(|line| line.split_once(' ')).unzip();
        comm.hosts = hosts.into_iter().map(str::to_owned).collect();
        let neighbours = pids.iter().enumerate().filter(|&(other, _)| other != rank && comm.hosts[other] == host);
        let neighbours = neighbours.filter_map(|(rank, pid)| Some(Neighbour { rank, pid: pid.parse().ok()? }));
        signals::say_when_ended(rank, neighbours.collect());
        tracing::debug!(rank, size, host, library = comm.library(), "joined the job");
        Ok(comm)
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.transport.size()
    }

    /// The host of this rank.
    pub fn host(&self) -> &str {
        &self.hosts[self.rank()]
    }

    /// The host of every rank, by rank.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// This rank among those of its host, from 0 in the order of ranks.
    pub fn local_rank(&self) -> usize {
        local_rank(&self.hosts, self.rank())
    }

    /// How many ranks share this rank's host.
    pub fn local_size(&self) -> usize {
        self.hosts.iter().filter(|&host| host == self.host()).count()
    }

    /// The MPI library and its version in one line, or `none (one process)`.
    pub fn library(&self) -> String {
        self.transport.library()
    }

    /// Names what this rank does from here on; every line about a failure, a panic's too, carries the name.
    pub fn set_phase(&self, phase: &'static str) {
        ending::set_phase(phase);
    }

    /// What this rank does, as last named.
    pub fn phase(&self) -> &'static str {
        ending::phase()
    }

    /// Starts to send `bytes` to rank `to`, which may be this one. The receiver must ask for the same length.
    ///
    /// All pieces are handed to MPI at once, so several messages may be under way to one rank, also with one tag:
    /// they arrive in the order of the calls. The vector comes back from [`Outgoing::wait`], which may
    /// last until the receiver has asked: post the receiving of a message to oneself before waiting.
    ///
    /// # Errors
    /// [`Error::Mpi`] where MPI refuses.
    ///
    /// # Panics
    /// `tag` ≥ [`TAGS`] or `to` ≥ [`Self::size`].
    pub fn send(&self, to: usize, tag: u16, bytes: Vec<u8>) -> Result<Outgoing> {
        assert!(tag < TAGS, "tag {tag} is reserved");
        self.post_send(to, tag, bytes)
    }

    /// Starts to receive exactly `buffer.len()` bytes from rank `from` into `buffer`, whose contents do not matter.
    ///
    /// # Errors
    /// [`Error::Mpi`] where MPI refuses; another length shows when the message is waited for.
    ///
    /// # Panics
    /// `tag` ≥ [`TAGS`] or `from` ≥ [`Self::size`].
    pub fn recv(&self, from: usize, tag: u16, buffer: Vec<u8>) -> Result<Incoming> {
        assert!(tag < TAGS, "tag {tag} is reserved");
        self.post_recv(from, tag, buffer)
    }

    fn post_send(&self, to: usize, tag: u16, bytes: Vec<u8>) -> Result<Outgoing> {
        assert!(to < self.size(), "no rank {to}");
        Ok(Outgoing { pending: self.transport.send(to, tag, bytes)? })
    }

    fn post_recv(&self, from: usize, tag: u16, buffer: Vec<u8>) -> Result<Incoming> {
        assert!(from < self.size(), "no rank {from}");
        Ok(Incoming { pending: self.transport.receive(from, tag, buffer)?, from })
    }

    /// Moves all messages along, shows the others that this rank lives, and looks whether they do. Call it between
    /// batches of computation, several times per time-out.
    ///
    /// # Errors
    /// [`Error::Mpi`] where a rank has been silent for longer than the time-out.
    pub fn progress(&self) -> Result<()> {
        (0..PROGRESS_TURNS).try_for_each(|_| self.poll())
    }

    fn poll(&self) -> Result<()> {
        let Some(silent) = self.pulse.borrow_mut().poll(&*self.transport)? else { return Ok(()) };
        let host = self.hosts.get(silent).map(|host| format!(" on {host}")).unwrap_or_default();
        Err(Error::Mpi(format!(
            "rank {silent}{host} has not answered for {} s (a batch that takes longer needs a longer --timeout or a smaller --batch)",
            seconds(self.timeout)
        )))
    }

    fn wait(&self, mut pending: Box<dyn Pending>) -> Result<Vec<u8>> {
        self.poll_until(|| pending.test())?;
        Ok(pending.into_buffer())
    }

    /// Polls until `done`: 100 times at once, 1000 times offering the core, then every 50 µs, so that ranks that
    /// share a core do not starve each other.
    fn poll_until(&self, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut polls = 0u64;
        while !done()? {
            self.poll()?;
            polls += 1;
            match polls {
                0..100 => std::hint::spin_loop(),
                100..1100 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// Leaves the job in good order, once every rank calls it, and returns the largest `code` of all ranks: what each
    /// should exit with. Write all outputs before: mpirun kills the other ranks as soon as one has exited with an error.
    ///
    /// # Errors
    /// As [`Self::progress`]. An end of MPI that does not return within the time-out ends this process with code 4.
    pub fn finish(self, code: i32) -> Result<i32> {
        self.set_phase("finish");
        let code = self.max_i32(code)?;
        // A launcher ends the others by SIGTERM as soon as one rank has ended with an error.
        signals::be_silent();
        // MPI may be left only once every sign of life has been received. A goodbye is the last one on its way, and
        // messages of one source and tag do not overtake each other (MPI 3.1, 3.5).
        self.pulse.borrow_mut().say_goodbye();
        self.poll_until(|| self.pulse.borrow_mut().is_over(&*self.transport))?;
        let late = format!("MPI has not ended for {} s", seconds(self.timeout));
        let _limit = ending::Watchdog::arm(self.timeout, 4, Some(late));
        self.transport.finalize()?;
        Ok(code)
    }
}

/// A message on its way out. Dropped before it is done, it leaks its bytes: MPI may still read them.
#[must_use = "a message's bytes come back from `wait`"]
pub struct Outgoing {
    pending: Box<dyn Pending>,
}

impl Outgoing {
    /// Waits until the bytes may be changed again and gives them back.
    ///
    /// # Errors
    /// [`Error::Mpi`] where the message failed or a rank fell silent.
    pub fn wait(self, comm: &Comm) -> Result<Vec<u8>> {
        comm.wait(self.pending)
    }
}

/// A message on its way in. Dropped before it is done, it leaks its buffer: MPI may still write to it.
#[must_use = "a message's bytes come from `wait`"]
pub struct Incoming {
    pending: Box<dyn Pending>,
    from: usize,
}

impl Incoming {
    /// Waits for the whole message and gives its bytes.
    ///
    /// # Errors
    /// [`Error::Mpi`] where the message failed or had another length, or where a rank fell silent.
    pub fn wait(self, comm: &Comm) -> Result<Vec<u8>> {
        let bytes = comm.wait(self.pending)?;
        comm.pulse.borrow_mut().heard(self.from);
        Ok(bytes)
    }
}

/// How many ranks below `rank` have its host.
fn local_rank(hosts: &[String], rank: usize) -> usize {
    hosts[..rank].iter().filter(|&host| *host == hosts[rank]).count()
}

/// A message of another length than its receiver asked for.
fn wrong_length(from: usize, got: usize, due: usize) -> Error {
    Error::Mpi(format!("rank {from} sent {got} bytes where {due} are due"))
}

/// A duration as a line shows it: 300, 2.5.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_ranks_count_per_host() {
        let hosts = ["a", "b", "a", "a", "b"].map(str::to_owned);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| local_rank(&hosts, rank)), [0, 0, 1, 2, 1]);
    }
}
