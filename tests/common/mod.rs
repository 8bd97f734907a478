//! Starting programs, alone and under mpirun, and what they said. `MPIRUN` may name another mpirun.

#![allow(dead_code, reason = "every test program uses a part of this")]

pub mod device;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{Read, Seek},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_lwe-mpi");

/// No program of the tests takes longer, on the slowest machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What launchers tell their processes: a program by itself hears nothing of it, wherever the tests run.
const LAUNCHERS: [&str; 8] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// What a program said and how it ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Ended {
    /// The program's own lines on standard error.
    pub fn lines(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("lwe-mpi: ")).collect()
    }

    /// Its own lines about failures, which name a rank.
    pub fn failures(&self) -> Vec<&str> {
        self.lines().into_iter().filter(|line| line.starts_with("lwe-mpi: rank ")).collect()
    }

    /// Everything, for the message of an assertion.
    pub fn all(&self) -> String {
        format!("code {:?} after {:?}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.took, self.stdout, self.stderr)
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.all());
        self
    }

    /// Asserts that the program said one line and nothing else, and gives it.
    #[track_caller]
    pub fn only_line(&self) -> &str {
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(self.stdout.is_empty() && lines.len() == 1 && lines[0].starts_with("lwe-mpi: "), "{}", self.all());
        lines[0]
    }

    /// Standard output as JSON: one document and nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}", self.all()))
    }
}

/// `program` by itself, without a launcher's environment.
pub fn alone(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    LAUNCHERS.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Runs the program under test by itself; flags are separated by blanks.
pub fn lwe_mpi(flags: &str) -> Ended {
    run(with_flags(flags))
}

/// The program under test by itself; flags are separated by blanks.
pub fn with_flags(flags: &str) -> Command {
    let mut command = alone(PROGRAM);
    command.args(flags.split_whitespace());
    command
}

/// `ranks` processes of a program under mpirun.
pub fn mpirun(ranks: usize, program_and_flags: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let launcher = std::env::var("MPIRUN").unwrap_or_else(|_| "mpirun".into());
    let version = Command::new(&launcher)
        .arg("--version")
        .output()
        .unwrap_or_else(|error| panic!("these tests need MPI's launcher, but `{launcher}` does not start: {error}"));
    let mut command = Command::new(&launcher);
    if String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
        command.arg("--oversubscribe");
    }
    command.args(["-n", &ranks.to_string()]).args(program_and_flags.into_iter().map(Into::into));
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// Runs a command to its end. Fails with its output where it takes longer than any may.
#[track_caller]
pub fn run(command: Command) -> Ended {
    let mut stdout = tempfile::tempfile().unwrap();
    let mut ended = run_into(command, stdout.try_clone().unwrap().into());
    ended.stdout = contents(&mut stdout);
    ended
}

/// [`run`], one command of this test program at a time: jobs depend on time and have more ranks than a small machine
/// has cores.
#[track_caller]
pub fn run_one_at_a_time(command: Command) -> Ended {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(command)
}

/// [`run`] with a standard output of the caller's.
#[track_caller]
pub fn run_into(mut command: Command, stdout: Stdio) -> Ended {
    let mut stderr = tempfile::tempfile().unwrap();
    command.stdout(stdout).stderr(stderr.try_clone().unwrap()).stdin(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    // The caller's pipe closes with its last writer.
    drop(command);
    let code = wait(&mut child, start).and_then(|status| status.code());
    let ended = Ended { code, stdout: String::new(), stderr: contents(&mut stderr), took: start.elapsed() };
    assert!(ended.took < LIMIT, "too slow: {}", ended.all());
    ended
}

/// How the child ended; none where it had to be ended: mildly first, so that a launcher ends its ranks.
fn wait(child: &mut Child, start: Instant) -> Option<ExitStatus> {
    if let Some(status) = wait_until(child, start + LIMIT) {
        return Some(status);
    }
    // A child that is gone meanwhile needs no signal.
    let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM);
    if wait_until(child, start + LIMIT + Duration::from_secs(5)).is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

fn wait_until(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            status => return status,
        }
    }
}

fn contents(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names in a folder, hidden ones too, in order.
pub fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether `what` becomes true within five seconds: launchers may be gone a moment before what they have killed.
pub fn eventually(what: impl Fn() -> bool) -> bool {
    (0..100).any(|_| {
        let yes = what();
        if !yes {
            std::thread::sleep(Duration::from_millis(50));
        }
        yes
    })
}

/// Asserts that `value` is `kind` at each of the dotted `paths`.
#[track_caller]
pub fn assert_kinds(value: &Value, kind: fn(&Value) -> bool, paths: &str) {
    for path in paths.split_whitespace() {
        let pointer = format!("/{}", path.replace('.', "/"));
        let found = value.pointer(&pointer).unwrap_or_else(|| panic!("no {path} in {value}"));
        assert!(kind(found), "{path}: {found}");
    }
}
