//! `lwe-mpi info`: MPI, ranks, hosts, cores, instruction sets and devices.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Outputs, open_device};
use crate::{
    backend::select::{ABSENT, instruction_sets},
    cli::InfoArgs,
    comm::Comm,
    machine,
    ops::Ops,
    report::{
        SCHEMA_VERSION,
        table::{align_right, bytes, plain_table},
    },
};

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    program_version: &'static str,
    command: &'static str,
    mpi_library: String,
    ranks: usize,
    hosts: usize,
    backend: &'static str,
    backend_reason: &'static str,
    devices_absent: Vec<Absent>,
    ranks_table: Vec<Row>,
}

#[derive(Serialize)]
struct Absent {
    kind: &'static str,
    reason: &'static str,
}

#[derive(Serialize, Deserialize)]
struct Row {
    rank: usize,
    host: String,
    local_rank: usize,
    device: String,
    isa: String,
    /// Those that `--isa` takes here, the plainest first.
    isa_available: Vec<String>,
    cores: String,
    threads: usize,
    available_bytes: u64,
    instruction_sets: Vec<String>,
}

pub(super) fn execute(args: &InfoArgs, comm: &Comm) -> Result<i32> {
    comm.set_phase("open the outputs");
    let outputs = if comm.rank() == 0 { Some(Outputs::open(&args.output)?) } else { None };
    let (opened, cores) = open_device(&args.job, comm)?;
    let device = opened.ops.device();
    let mine = Row {
        rank: comm.rank(),
        host: comm.host().into(),
        local_rank: comm.local_rank(),
        device: device.name,
        isa: device.isa,
        isa_available: instruction_sets().into_iter().map(String::from).collect(),
        cores,
        threads: device.units,
        available_bytes: device.available_bytes,
        instruction_sets: machine::instruction_sets().into_iter().map(String::from).collect(),
    };
    let all = comm.gather(&serde_json::to_vec(&mine)?)?;
    if let (Some(all), Some(outputs)) = (all, outputs) {
        let document = Document {
            schema_version: SCHEMA_VERSION,
            program_version: env!("CARGO_PKG_VERSION"),
            command: "info",
            mpi_library: comm.library(),
            ranks: comm.size(),
            hosts: super::distinct(comm.hosts()),
            backend: opened.name,
            backend_reason: opened.reason,
            devices_absent: ABSENT.map(|(kind, reason)| Absent { kind, reason }).into(),
            ranks_table: all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<_, _>>()?,
        };
        outputs.write(&text(&document), &document)?;
    }
    Ok(0)
}

fn text(document: &Document) -> String {
    let mut table = plain_table(["rank", "host", "device", "cores", "threads", "free memory", "--isa", "extensions"]);
    for row in &document.ranks_table {
        table.add_row([
            row.rank.to_string(),
            row.host.clone(),
            format!("{} ({})", row.device, row.isa),
            row.cores.clone(),
            row.threads.to_string(),
            bytes(row.available_bytes),
            row.isa_available.join(" "),
            row.instruction_sets.join(" "),
        ]);
    }
    align_right(&mut table, [0, 4, 5]);
    let absent = document.devices_absent.iter().map(|absent| format!("{}: none, {}\n", absent.kind, absent.reason));
    format!(
        "lwe-mpi {}\nMPI: {}\nranks: {} on {} host(s)\nbackend: {} ({})\n{}\n{}\n",
        document.program_version,
        document.mpi_library,
        document.ranks,
        document.hosts,
        document.backend,
        document.backend_reason,
        absent.collect::<String>(),
        table.trim_fmt(),
    )
}
