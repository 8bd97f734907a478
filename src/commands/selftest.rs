//! `lwe-mpi selftest`: known answers on every rank.

use std::{collections::BTreeMap, io::Read};

use anyhow::Result;
use serde::Serialize;

use super::{Outputs, open_device};
use crate::{
    cli::SelftestArgs,
    comm::Comm,
    error::Error,
    report::SCHEMA_VERSION,
    selftest::{self, Failure, Outcome, Vectors},
};

/// The largest file of known answers.
const MOST_BYTES: u64 = 256 << 20;
/// How many failures are shown one by one.
const MOST_FAILURES: usize = 10;

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    program_version: &'static str,
    command: &'static str,
    vectors: String,
    ranks: usize,
    passed: usize,
    failed: usize,
    failures: Vec<String>,
}

pub(super) fn execute(args: &SelftestArgs, comm: &Comm) -> Result<i32> {
    comm.set_phase("open the outputs");
    let outputs = if comm.rank() == 0 { Some(Outputs::open(&args.output)?) } else { None };
    comm.set_phase("read the vectors");
    let vectors = match &args.vectors {
        Some(path) => Some(read(path, comm)?),
        None => None,
    };
    let (opened, _) = open_device(&args.job, comm)?;
    comm.set_phase("known answers");
    let outcome = match &vectors {
        Some(vectors) => vectors.check(&opened.ops),
        None => selftest::built_in(&opened.ops),
    };
    let all = comm.gather(&serde_json::to_vec(&outcome)?)?;
    let mut code = 0;
    if let (Some(all), Some(outputs)) = (all, outputs) {
        let all = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<Vec<Outcome>, _>>()?;
        let document = document(args, comm, &all);
        code = i32::from(document.failed > 0);
        outputs.write(&text(&document), &document)?;
    }
    Ok(code)
}

/// Rank 0 reads the file, for all; what is wrong with it is said once, as the others wait for rank 0.
fn read(path: &str, comm: &Comm) -> Result<Vectors> {
    let mut bytes = Vec::new();
    if comm.rank() == 0 {
        let failed = |source| Error::Io { path: path.into(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(failed(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "more than 256 MiB")).into());
        }
        parse(path, &bytes)?;
    }
    parse(path, &comm.broadcast(bytes)?)
}

fn parse(path: &str, bytes: &[u8]) -> Result<Vectors> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Io {
        path: path.into(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, "not a text file"),
    })?;
    Ok(Vectors::parse(path, text)?)
}

/// A test counts as passed where it passed on every rank.
fn document(args: &SelftestArgs, comm: &Comm, all: &[Outcome]) -> Document {
    let mut failed: BTreeMap<usize, String> = BTreeMap::new();
    for (rank, outcome) in all.iter().enumerate() {
        for Failure { index, name, difference } in &outcome.failures {
            failed.entry(*index).or_insert_with(|| format!("{name}, rank {rank}: {difference}"));
        }
    }
    let tests = all[0].tests();
    Document {
        schema_version: SCHEMA_VERSION,
        program_version: env!("CARGO_PKG_VERSION"),
        command: "selftest",
        vectors: args.vectors.clone().unwrap_or_else(|| "built-in".into()),
        ranks: comm.size(),
        passed: tests - failed.len(),
        failed: failed.len(),
        failures: failed.into_values().take(MOST_FAILURES).collect(),
    }
}

fn text(document: &Document) -> String {
    let mut lines = document.failures.clone();
    if document.failed > lines.len() {
        lines.push(format!("… and {} more", document.failed - lines.len()));
    }
    lines.push(format!("{} passed, {} failed", document.passed, document.failed));
    lines.join("\n") + "\n"
}
