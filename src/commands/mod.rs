//! What each subcommand does, from its flags to its exit code.

mod info;
mod params;
mod run;
mod selftest;

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::{
    backend::select::{self, Opened},
    cli::{Command, JobArgs, OutputArgs},
    comm::{self, Comm},
    error::Error,
    machine,
    report::output::{self, Output},
    selftest::{Failure, built_in},
};

/// Does what `command` says on this rank and returns the exit code. `started` is when the program began.
///
/// An error on one rank ends all ranks, with one line.
pub fn execute(command: Command, started: Instant) -> i32 {
    let job = match &command {
        Command::Params(args) => return alone(params::execute(args)),
        Command::Run(args) => &args.job,
        Command::Info(args) => &args.job,
        Command::Selftest(args) => &args.job,
    };
    let comm = Comm::start(job.timeout).unwrap_or_else(|error| comm::abort(error.exit_code(), &error.to_string()));
    comm::install_panic_hook();
    let result = match &command {
        Command::Run(args) => run::execute(args, &comm, started),
        Command::Info(args) => info::execute(args, &comm),
        Command::Selftest(args) => selftest::execute(args, &comm),
        Command::Params(_) => unreachable!("params needs no ranks and has returned"),
    };
    let code = result.unwrap_or_else(|error| comm::abort(exit_code(&error), &error.to_string()));
    comm.finish(code).unwrap_or_else(|error| comm::abort(error.exit_code(), &error.to_string()))
}

/// The end of a command that every process does for itself and one of them prints.
fn alone(result: Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            output::to_stderr(&format!("lwe-mpi: {error}\n"));
            exit_code(&error)
        }
    }
}

fn exit_code(error: &anyhow::Error) -> i32 {
    error.downcast_ref::<Error>().map_or(1, Error::exit_code)
}

/// This rank's device, with its share of the cores where that is the CPU.
fn open_device(job: &JobArgs, comm: &Comm) -> Result<Opened> {
    comm.set_phase("open the device");
    let threads = match job.threads.exactly() {
        Some(threads) => threads,
        None => core_share(comm)?,
    };
    Ok(select::open(job.backend, threads)?)
}

/// This rank's share of the cores that it may run on.
fn core_share(comm: &Comm) -> Result<usize> {
    let mine = machine::cores();
    let masks = comm.gather(&serde_json::to_vec(&mine)?)?;
    let masks = masks.map(|masks| {
        format!("[{}]", masks.iter().map(|mask| String::from_utf8_lossy(mask)).collect::<Vec<_>>().join(","))
    });
    let masks: Vec<Vec<usize>> = serde_json::from_slice(&comm.broadcast(masks.unwrap_or_default().into_bytes())?)?;
    let here: Vec<Vec<usize>> =
        masks.into_iter().zip(comm.hosts()).filter(|(_, host)| *host == comm.host()).map(|(mask, _)| mask).collect();
    Ok(machine::core_share(&mine, &here))
}

/// Runs the built-in known answers on this rank's device, as before any work.
fn require_known_answers(opened: &Opened, comm: &Comm) -> Result<()> {
    comm.set_phase("known answers");
    let outcome = built_in(&opened.ops);
    match outcome.failures.first() {
        None => Ok(()),
        Some(Failure { name, difference, .. }) => {
            Err(Error::Wrong(format!("known answer {name}: {difference}")).into())
        }
    }
}

/// The places of a report: files are opened before any work.
struct Outputs {
    json: Option<Output>,
    /// The table goes to standard error because standard output holds a document.
    table_on_stderr: bool,
    quiet: bool,
}

impl Outputs {
    fn open(args: &OutputArgs) -> Result<Self> {
        let json = args.json.as_deref().map(Output::open).transpose()?;
        Ok(Outputs { table_on_stderr: matches!(json, Some(Output::Stdout)), json, quiet: args.quiet })
    }

    /// Writes the table and the JSON document.
    fn write(self, table: &str, document: &impl Serialize) -> Result<()> {
        if !self.quiet {
            if self.table_on_stderr {
                output::to_stderr(table);
            } else {
                output::to_stdout(table)?;
            }
        }
        if let Some(json) = self.json {
            json.write(&(serde_json::to_string_pretty(document)? + "\n"))?;
        }
        Ok(())
    }
}

/// How many different hosts there are.
fn distinct(hosts: &[String]) -> usize {
    hosts.iter().collect::<std::collections::BTreeSet<_>>().len()
}
