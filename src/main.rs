//! lwe-mpi: post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use lwe_mpi::{
    cli::{self, Reply},
    comm::launcher,
    commands,
    report::output,
};
use tracing_subscriber::EnvFilter;

fn main() {
    let started = Instant::now();
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_env("LWE_MPI_LOG")).with_writer(io::stderr).init();
    std::process::exit(match cli::parse(std::env::args_os()) {
        Ok(command) => commands::execute(command, started),
        Err(reply) => answer(reply),
    });
}

/// How long the other ranks wait until rank 0's line about a wrong flag is out: mpirun ends a job, rank 0 too, as soon
/// as one rank has ended with an error.
const SAY: Duration = Duration::from_secs(1);

/// Says what is the same on every rank once, before MPI starts.
fn answer(reply: Reply) -> i32 {
    let first = launcher::rank(launcher::environment).unwrap_or(0) == 0;
    match reply {
        Reply::Text(text) => match if first { output::to_stdout(&text) } else { Ok(()) } {
            Ok(()) => 0,
            Err(error) => {
                output::to_stderr(&format!("lwe-mpi: {error}\n"));
                error.exit_code()
            }
        },
        Reply::Usage(line) => {
            if first {
                output::to_stderr(&format!("lwe-mpi: {line}\n"));
            } else {
                thread::sleep(SAY);
            }
            2
        }
    }
}
