//! The ranks' communication. Under MPI, this program starts itself again under mpirun, several times: each test names
//! a scenario, and every rank runs [`rank_body`]. `MPIRUN` may name another mpirun.

mod common;

use std::time::Duration;

use common::run_one_at_a_time;
use lwe_mpi::{
    comm::{Comm, PIECE_BYTES, abort, install_panic_hook},
    error::{Error, Result},
};

/// Bytes that differ with sender, receiver and position, also across pieces.
fn pattern(from: usize, to: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251 + from * 31 + to * 101) as u8).collect()
}

/// Every operation, with its result checked on every rank. `big` is a length of several pieces.
fn exchange(comm: &Comm, big: usize) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    assert_eq!(comm.hosts().len(), size);
    assert!(!comm.host().is_empty() && comm.hosts().iter().all(|host| host == comm.host()));
    assert_eq!((comm.local_rank(), comm.local_size()), (rank, size), "all ranks are on this host");
    assert!(!comm.library().is_empty() && !comm.library().contains(char::is_control));
    assert_eq!(comm.library().trim(), comm.library());
    comm.barrier()?;

    for length in [0, 1, big] {
        let mine = if rank == 0 { pattern(0, 0, length) } else { b"ignored".to_vec() };
        assert!(comm.broadcast(mine)? == pattern(0, 0, length), "broadcast of {length} B");
    }

    let ragged = |from: usize| [0, 3, PIECE_BYTES + 1, 1, big][from % 5];
    match comm.gather(&pattern(rank, 0, ragged(rank)))? {
        Some(all) => {
            assert!((rank, all.len()) == (0, size));
            assert!(all.iter().enumerate().all(|(from, bytes)| *bytes == pattern(from, 0, ragged(from))));
        }
        None => assert!(rank > 0),
    }

    let streamed = |from: usize| if from == 3 { 0 } else { big + from };
    let mut seen = vec![Vec::new(); size];
    let mut order = Vec::new();
    comm.gather_stream(&pattern(rank, 0, streamed(rank)), |from, piece| {
        assert!((1..=PIECE_BYTES).contains(&piece.len()));
        seen[from].extend_from_slice(piece);
        order.push(from);
        Ok(())
    })?;
    assert!(order.is_sorted() && (rank == 0 || order.is_empty()));
    let expected = |from: usize| if rank == 0 { pattern(from, 0, streamed(from)) } else { Vec::new() };
    assert!((0..size).all(|from| seen[from] == expected(from)));

    // A ring, several messages at once on one tag and on another; one rank sends to itself.
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let lengths = [5, big, 0, PIECE_BYTES, 77];
    let mut incoming = Vec::new();
    let mut outgoing = Vec::new();
    for (k, length) in lengths.into_iter().enumerate() {
        incoming.push(comm.recv(previous, 7, vec![0xee; length])?);
        outgoing.push(comm.send(next, 7, pattern(rank, next + k, length))?);
    }
    let other = comm.recv(previous, 8, vec![0; 9])?;
    comm.progress()?;
    let last = comm.send(next, 8, pattern(rank, next, 9))?;
    assert_eq!(other.wait(comm)?, pattern(previous, rank, 9));
    last.wait(comm)?;
    for (k, message) in incoming.into_iter().enumerate() {
        assert!(message.wait(comm)? == pattern(previous, rank + k, lengths[k]), "message {k}");
    }
    for (k, message) in outgoing.into_iter().enumerate() {
        assert!(message.wait(comm)? == pattern(rank, next + k, lengths[k]), "the bytes come back");
    }

    let length = |from: usize, to: usize| [0, 10, big, 1000][(2 * from + to) % 4];
    let received = comm.all_to_all((0..size).map(|to| pattern(rank, to, length(rank, to))).collect())?;
    assert_eq!(received.len(), size);
    assert!((0..size).all(|from| received[from] == pattern(from, rank, length(from, rank))));

    Ok(())
}

/// A message of another length than asked for is an error, whichever is longer.
fn wrong_lengths(comm: &Comm) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let to_self = (rank, rank);
    let ring = ((rank + 1) % size, (rank + size - 1) % size);
    for ((to, from), sent, due) in
        [to_self, ring].into_iter().flat_map(|ends| [(5, 9), (0, 1), (9, 5)].map(|(sent, due)| (ends, sent, due)))
    {
        let incoming = comm.recv(from, 1, vec![0; due])?;
        let outgoing = comm.send(to, 1, vec![1; sent])?;
        let error = incoming.wait(comm).expect_err("another length");
        assert!(matches!(error, Error::Mpi(_)), "{error}");
        outgoing.wait(comm)?;
    }
    Ok(())
}

#[test]
fn a_world_of_one_without_mpi() {
    let comm = Comm::alone();
    assert_eq!((comm.rank(), comm.size(), comm.library().as_str()), (0, 1, "none (one process)"));
    exchange(&comm, 10 << 20).unwrap();
    wrong_lengths(&comm).unwrap();
    comm.set_phase("decaps");
    assert_eq!(comm.phase(), "decaps");
    assert_eq!(comm.finish(1).unwrap(), 1);
}

#[test]
fn a_time_out_that_cannot_work_is_refused() {
    assert!(matches!(Comm::start(Duration::from_millis(999)), Err(Error::Usage(_))));
}

/// One rank of a scenario; by itself, a world of one. It ends the process by itself where it ends early.
#[test]
#[ignore = "what every rank runs; the other tests start it"]
fn rank_body() {
    let scenario = std::env::var("COMM_SCENARIO").unwrap_or_else(|_| "exchange".into());
    let timeout = Duration::from_secs(std::env::var("COMM_TIMEOUT_S").map_or(60, |s| s.parse().unwrap()));
    fn give_up(error: Error) -> ! {
        abort(error.exit_code(), &error.to_string())
    }
    let comm = Comm::start(timeout).unwrap_or_else(|error| give_up(error));
    install_panic_hook();
    comm.set_phase("encaps");
    let code = play(&scenario, &comm, timeout).unwrap_or_else(|error| give_up(error));
    let rank = comm.rank();
    let code = comm.finish(code).unwrap_or_else(|error| give_up(error));
    println!("rank {rank} finished with {code}");
    std::process::exit(code);
}

/// What a rank does in a scenario, and the exit code that it proposes.
fn play(scenario: &str, comm: &Comm, timeout: Duration) -> Result<i32> {
    let (kind, who) = scenario.split_once('-').map_or((scenario, None), |(kind, who)| (kind, who.parse().ok()));
    let chosen = who == Some(comm.rank());
    match kind {
        "exchange" => {
            exchange(comm, 10 << 20)?;
            wrong_lengths(comm)?;
        }
        "code" => return Ok(if chosen { 3 } else { 1 }),
        "stop" if chosen => {
            println!("stopped {}", std::process::id());
            shell(&format!("kill -STOP {}", std::process::id()));
            // Without this, the thread may run on for a moment before the signal reaches it.
            std::thread::sleep(timeout / 2);
        }
        "busy" if chosen => {
            let end = std::time::Instant::now() + 3 * timeout;
            while std::time::Instant::now() < end {
                std::hint::black_box((0..1_000_000u64).fold(1, |x: u64, k| x.wrapping_mul(k | 3)));
                comm.progress()?;
            }
        }
        // A rank that did not look for longer than the time-out must not take its own absence for another's.
        "nap" => std::thread::sleep(2 * timeout),
        "panic" if chosen => {
            let thread = std::thread::spawn(|| panic!("two\nlines"));
            let _ = thread.join();
        }
        "abort" if chosen => abort(5, "no room"),
        _ => {}
    }
    comm.barrier()?;
    Ok(0)
}

fn shell(line: &str) {
    assert!(std::process::Command::new("sh").args(["-c", line]).status().unwrap().success());
}

/// The command line of one rank of this program.
fn rank_arguments() -> Vec<std::ffi::OsString> {
    let program = std::env::current_exe().unwrap().into_os_string();
    let rest = ["--ignored", "--exact", "rank_body", "--nocapture", "--test-threads=1"];
    std::iter::once(program).chain(rest.map(Into::into)).collect()
}

/// A process that a launcher of another MPI started: refused in one line that says why.
#[test]
fn the_wrong_launcher_is_refused() {
    let rank = rank_arguments();
    let mut command = common::alone(&rank[0]);
    command.args(&rank[1..]).env("SLURM_NTASKS", "4");
    let ended = run_one_at_a_time(command);
    assert_eq!(ended.code, Some(4), "{}", ended.all());
    assert!(
        ended.stderr.contains(", phase start: MPI: SLURM_NTASKS says 4 ranks, but this program"),
        "{}",
        ended.all()
    );
}

#[test]
fn a_panic_of_a_lone_process_is_one_line() {
    let rank = rank_arguments();
    let mut command = common::alone(&rank[0]);
    command.args(&rank[1..]).env("COMM_SCENARIO", "panic-0").env("RUST_BACKTRACE", "1");
    let ended = run_one_at_a_time(command);
    assert_eq!(ended.code, Some(101), "{}", ended.all());
    let lines = ended.lines();
    assert_eq!(lines.len(), 1, "{}", ended.all());
    assert!(
        lines[0].starts_with("lwe-mpi: rank 0 on ") && lines[0].contains(", phase encaps: panic at "),
        "{}",
        lines[0]
    );
    assert!(lines[0].ends_with(": two lines"), "{}", lines[0]);
    assert!(!ended.stderr.contains("stack backtrace"), "{}", ended.all());
}

#[cfg(feature = "mpi")]
mod under_mpirun {
    use super::*;
    use common::Ended;

    fn mpirun(ranks: usize, scenario: &str, timeout_s: u64) -> Ended {
        let mut command = common::mpirun(ranks, rank_arguments());
        command.env("COMM_SCENARIO", scenario).env("COMM_TIMEOUT_S", timeout_s.to_string());
        run_one_at_a_time(command)
    }

    fn assert_finished(ended: &Ended, ranks: usize) {
        assert_eq!(ended.code, Some(0), "{}", ended.all());
        assert_eq!(ended.stdout.matches("finished with 0").count(), ranks, "{}", ended.all());
        assert_eq!(ended.lines().len(), 0, "{}", ended.all());
    }

    #[test]
    fn every_operation_at_1_2_3_and_5_ranks() {
        for ranks in [1, 2, 3, 5] {
            assert_finished(&mpirun(ranks, "exchange", 60), ranks);
        }
    }

    #[test]
    fn every_rank_ends_with_the_largest_code() {
        let ended = mpirun(3, "code-2", 60);
        assert_eq!(ended.code, Some(3), "{}", ended.all());
        // mpirun ends the others as soon as one has ended with an error: not all of them get to say it.
        assert!(ended.stdout.contains("finished with 3") && !ended.stdout.contains("finished with 1"));
        assert_eq!(ended.lines().len(), 0, "{}", ended.all());
    }

    #[test]
    fn a_busy_rank_is_no_false_alarm() {
        for busy in [0, 1] {
            let ended = mpirun(3, &format!("busy-{busy}"), 2);
            assert_finished(&ended, 3);
            assert!(ended.took >= Duration::from_secs(6), "{}", ended.all());
        }
    }

    #[test]
    fn ranks_that_did_not_look_do_not_judge() {
        assert_finished(&mpirun(3, "nap", 2), 3);
    }

    /// A rank that is stopped is named by rank 0, or by rank 1 where it is rank 0, soon after the time-out.
    #[test]
    fn a_stopped_rank_is_given_up() {
        for stopped in [0, 1, 2] {
            let ended = mpirun(3, &format!("stop-{stopped}"), 2);
            assert_eq!(ended.code, Some(4), "{}", ended.all());
            let judge = if stopped == 0 { 1 } else { 0 };
            let line = ended.lines().into_iter().find(|line| line.starts_with(&format!("lwe-mpi: rank {judge} on ")));
            let line = line.unwrap_or_else(|| panic!("{}", ended.all()));
            assert!(line.contains(&format!(", phase encaps: MPI: rank {stopped} on ")), "{line}");
            assert!(line.contains(" has not answered for 2 s ("), "{line}");
            assert!(ended.took > Duration::from_secs(2) && ended.took < Duration::from_secs(20), "{}", ended.all());
            let pid = ended.stdout.split("stopped ").nth(1).and_then(|rest| rest.split_whitespace().next());
            // mpirun may be gone a moment before what it has killed.
            assert!(
                common::eventually(|| !std::path::Path::new("/proc").join(pid.unwrap()).exists()),
                "mpirun left the stopped rank behind"
            );
        }
    }

    #[test]
    fn a_panic_on_any_thread_ends_the_job() {
        let ended = mpirun(3, "panic-1", 60);
        assert_eq!(ended.code, Some(101), "{}", ended.all());
        let lines = ended.lines();
        assert_eq!(lines.len(), 1, "{}", ended.all());
        assert!(lines[0].starts_with("lwe-mpi: rank 1 on ") && lines[0].contains(", phase encaps: panic at "));
        assert!(lines[0].ends_with(": two lines"), "{}", lines[0]);
        assert!(ended.took < Duration::from_secs(20), "{}", ended.all());
    }

    #[test]
    fn an_abort_ends_the_job_with_its_code() {
        let ended = mpirun(3, "abort-2", 60);
        assert_eq!(ended.code, Some(5), "{}", ended.all());
        assert_eq!(ended.lines().len(), 1, "{}", ended.all());
        assert!(ended.lines()[0].starts_with("lwe-mpi: rank 2 on "), "{}", ended.all());
        assert!(ended.lines()[0].ends_with(", phase encaps: no room"), "{}", ended.all());
    }
}
