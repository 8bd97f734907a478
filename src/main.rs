//! lwe-mpi: post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters.

use std::{io, time::Instant};

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

/// Says what is the same on every rank once, before MPI starts.
fn answer(reply: Reply) -> i32 {
    let first = launcher::rank(launcher::environment).unwrap_or(0) == 0;
    match reply {
        Reply::Text(text) => {
            let written = if first { output::to_stdout(&text) } else { Ok(()) };
            written.map_or_else(|error| error.exit_code(), |()| 0)
        }
        Reply::Usage(line) => {
            if first {
                eprintln!("lwe-mpi: {line}");
            }
            2
        }
    }
}
