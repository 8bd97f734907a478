//! What each subcommand does, from its flags to its exit code.

mod info;
mod params;
mod run;
mod selftest;

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::{
    backend::select::{self, Opened, Request},
    cli::{Command, JobArgs, OutputArgs},
    comm::{self, Comm},
    error::Error,
    machine::{self, CoreShare},
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

/// This rank's device, and the cores that its threads run on: those that they are pinned to, or the rank's mask.
fn open_device(job: &JobArgs, comm: &Comm) -> Result<(Opened, String)> {
    comm.set_phase("open the device");
    // Before any thread is pinned, perhaps this one too.
    let mask = machine::cores();
    let share = core_share(&mask, comm)?;
    let threads = job.threads.exactly().unwrap_or(share.count);
    let cores = share.pins(threads);
    let opened = select::open(&Request { backend: job.backend, isa: job.isa, threads, cores });
    let opened = said_once(opened, comm)?;
    Ok((opened, machine::core_list(if cores.is_empty() { &mask } else { cores })))
}

/// This rank's share of the cores that it may run on.
fn core_share(mask: &[usize], comm: &Comm) -> Result<CoreShare> {
    let masks = comm.gather(&serde_json::to_vec(mask)?)?;
    let masks = masks.map(|masks| {
        format!("[{}]", masks.iter().map(|mask| String::from_utf8_lossy(mask)).collect::<Vec<_>>().join(","))
    });
    let masks: Vec<Vec<usize>> = serde_json::from_slice(&comm.broadcast(masks.unwrap_or_default().into_bytes())?)?;
    let here: Vec<Vec<usize>> =
        masks.into_iter().zip(comm.hosts()).filter(|(_, host)| *host == comm.host()).map(|(mask, _)| mask).collect();
    Ok(machine::core_share(comm.local_rank(), &here))
}

/// What may fail on all ranks alike is said once: of the ranks that failed the first says it, and all others wait for
/// the end that it brings.
fn said_once<T>(result: crate::error::Result<T>, comm: &Comm) -> Result<T> {
    let failed = comm.gather(&[u8::from(result.is_err())])?;
    let first = failed.and_then(|failed| failed.iter().position(|failed| failed == &[1]));
    let first = comm.broadcast(first.map_or(Vec::new(), |rank| rank.to_string().into_bytes()))?;
    if !first.is_empty() && first != comm.rank().to_string().into_bytes() {
        comm.barrier()?;
    }
    Ok(result?)
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
