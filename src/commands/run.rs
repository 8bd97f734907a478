//! `lwe-mpi run`: the workload on all ranks.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
    time::Instant,
};

use anyhow::Result;

use super::{Outputs, distinct, open_device, require_known_answers};
use crate::{
    backend::select::Opened,
    bench::{
        plan::Plan,
        run::{self, Outcome, Place},
        workload::Workload,
    },
    cli::{self, RunArgs, values::Matrix},
    comm::Comm,
    error::Error,
    failure::{FailureProbability, failure_probability},
    machine,
    ops::{MatrixForm, Ops},
    params::LweParams,
    report::{
        RankRow, RunReport, SCHEMA_VERSION, csv,
        output::{self, Output},
        table,
    },
    schemes::lwe::LweKem,
};

pub(super) fn execute(args: &RunArgs, comm: &Comm, started: Instant) -> Result<i32> {
    comm.set_phase("check the flags");
    let params = cli::parameter_set(args.n, args.sigma)?;
    let failure = failure_probability(&params);
    let first = comm.rank() == 0;
    // What is wrong on every rank is said once: the others wait for rank 0.
    if let Some(drill) = &args.drill
        && first
        && drill.rank >= comm.size()
    {
        return Err(Error::Usage(format!("--drill: there is no rank {}", drill.rank)).into());
    }

    comm.set_phase("open the outputs");
    let outputs = if first { Some(Outputs::open(&args.output)?) } else { None };
    let csv = if first { args.csv.as_deref().map(Output::open).transpose()? } else { None };
    let label = params.label();
    if let (true, Some(label)) = (first, &label) {
        output::to_stderr(&format!("lwe-mpi: n = {}: {label}\n", args.n));
    }

    let (opened, cores) = open_device(&args.job, comm)?;
    require_known_answers(&opened, comm)?;
    let workload = Workload {
        keys: args.keys.unwrap_or(2 * comm.size()),
        encaps_per_key: args.encaps,
        exchange: args.exchange,
        warmup: args.warmup,
        repeat: args.repeat,
        batch: args.batch.exactly(),
        seed: seed(args, comm)?,
    };
    let (kem, matrix_reason) = scheme(args, comm, &opened, params, &workload)?;
    let place = Place { cores, peak_mac_per_s: peak_mac_per_s(comm, &opened)? };
    let progress = Progress::new(first && !args.output.quiet);
    let outcome = run::run(&kem, comm, &workload, &place, args.drill.as_ref(), started, |text| progress.show(text))?;
    progress.clear();

    let (Some(outcome), Some(mut outputs)) = (outcome, outputs) else { return Ok(0) };
    comm.set_phase("report");
    let matrix = (kem.form(), matrix_reason);
    let report = report(args, comm, &opened, &workload, matrix, &failure, label, outcome);
    let code = i32::from(!right(&report));
    if code != 0 {
        output::to_stderr(&format!("lwe-mpi: {}\n", what_is_wrong(&report)));
    }
    outputs.table_on_stderr |= matches!(csv, Some(Output::Stdout));
    outputs.write(&table::render(&report), &report)?;
    if let Some(csv) = csv {
        csv.write(&csv::render(&report))?;
    }
    Ok(code)
}

/// The scheme with its matrices in the form that the user asked for or that the memory of all ranks allows, and why.
fn scheme<'a>(
    args: &RunArgs,
    comm: &Comm,
    opened: &'a Opened,
    params: LweParams,
    workload: &Workload,
) -> Result<(LweKem<'a, impl Ops + use<>>, &'static str)> {
    comm.set_phase("plan");
    let (form, reason) = match args.matrix {
        Matrix::Stored => (MatrixForm::Stored, "asked for with --matrix stored"),
        Matrix::Regenerated => (MatrixForm::Regenerated, "asked for with --matrix regenerated"),
        Matrix::Auto => {
            let stored = LweKem::new(&opened.ops, params.clone(), MatrixForm::Stored)?;
            if Plan::fits(&stored, comm, workload)? {
                (MatrixForm::Stored, "auto: stored ones fit the memory of every rank")
            } else {
                (MatrixForm::Regenerated, "auto: stored ones do not fit the memory of every rank")
            }
        }
    };
    Ok((LweKem::new(&opened.ops, params, form)?, reason))
}

/// How many ranks are on hosts where threads take turns on cores.
fn crowded(rows: &[RankRow]) -> usize {
    let is_crowded = |host: &str| {
        let here = || rows.iter().filter(|row| row.host == host);
        let cores: BTreeSet<usize> = here().flat_map(|row| machine::core_numbers(&row.cores)).collect();
        here().map(|row| row.threads).sum::<usize>() > cores.len()
    };
    rows.iter().filter(|row| is_crowded(&row.host)).count()
}

/// What this rank's device can do while those of all ranks are as busy as in the run.
fn peak_mac_per_s(comm: &Comm, opened: &Opened) -> Result<f64> {
    comm.set_phase("measure the peak");
    comm.barrier()?;
    Ok(opened.ops.peak_mac_per_s())
}

/// Whether every encapsulation agreed in every pass.
fn right(report: &RunReport) -> bool {
    report.agreement.agreed == report.agreement.total
        && !report.warnings.iter().any(|warning| warning == IRREPRODUCIBLE)
}

/// One line about wrong results, also where no table is printed.
fn what_is_wrong(report: &RunReport) -> String {
    let agreement = &report.agreement;
    match agreement.failures.first() {
        Some(first) => format!(
            "wrong results: {} of {} encapsulations agree; the first that does not: rank {}, key {}, encapsulation {}: {}",
            agreement.agreed, agreement.total, first.rank, first.key, first.item, first.fault
        ),
        None => format!("wrong results: {IRREPRODUCIBLE}"),
    }
}

const IRREPRODUCIBLE: &str = "passes with the same seed gave different results";

/// The user's seed, or one that rank 0 takes from the system for all.
fn seed(args: &RunArgs, comm: &Comm) -> Result<[u8; 32]> {
    if let Some(seed) = args.seed {
        return Ok(seed.0);
    }
    let mut seed = [0; 32];
    if comm.rank() == 0 {
        getrandom::fill(&mut seed).map_err(|error| Error::Device {
            device: "the system's generator".into(),
            operation: "draw a seed",
            message: error.to_string(),
        })?;
    }
    let seed = comm.broadcast(seed.to_vec())?;
    Ok(seed.try_into().map_err(|_| Error::Mpi("a seed of another length came from rank 0".into()))?)
}

fn report(
    args: &RunArgs,
    comm: &Comm,
    opened: &Opened,
    workload: &Workload,
    (matrix, matrix_reason): (MatrixForm, &str),
    failure: &FailureProbability,
    label: Option<String>,
    outcome: Outcome,
) -> RunReport {
    let mut warnings: Vec<String> = label.iter().map(|label| format!("n = {}: {label}", args.n)).collect();
    if !failure.acceptable() {
        warnings.push("the decryption-failure bound is above 2^-64: forced".into());
    }
    if workload.keys < comm.size() {
        warnings.push(format!("{} of {} ranks have no key", comm.size() - workload.keys, comm.size()));
    }
    let crowded = crowded(&outcome.ranks_table);
    if crowded > 0 {
        warnings.push(format!(
            "{crowded} of {} ranks are on hosts with more threads than cores: what their products reach is not known",
            comm.size()
        ));
    }
    let product_mac_per_s = outcome.product_mac_per_s.filter(|_| crowded == 0);
    if !outcome.reproducible {
        warnings.push(IRREPRODUCIBLE.into());
    }
    RunReport {
        schema_version: SCHEMA_VERSION,
        program_version: env!("CARGO_PKG_VERSION").into(),
        command: "run".into(),
        scheme: args.scheme.name().into(),
        n: args.n,
        sigma: args.sigma,
        label,
        failure_log2: failure.log2_per_encaps,
        keys: workload.keys,
        encaps_per_key: workload.encaps_per_key,
        exchange: match workload.exchange {
            crate::bench::workload::Exchange::Ring => "ring".into(),
            crate::bench::workload::Exchange::None => "none".into(),
        },
        warmup: workload.warmup,
        repeat: workload.repeat,
        seed: hex::encode(workload.seed),
        ranks: comm.size(),
        hosts: distinct(comm.hosts()),
        mpi_library: comm.library(),
        backend: opened.name.into(),
        backend_reason: opened.reason.into(),
        keys_per_group: outcome.plan.keys_per_group,
        batch: outcome.plan.batch_items(),
        rounds: outcome.plan.rounds,
        matrices: if outcome.plan.resident { "resident" } else { "expanded again" }.into(),
        matrix: matrix.name().into(),
        matrix_reason: matrix_reason.into(),
        fingerprint: outcome.fingerprint,
        agreement: outcome.agreement,
        phases: outcome.phases,
        peak_mac_per_s: outcome.peak_mac_per_s,
        product_mac_per_s,
        product_efficiency: product_mac_per_s.map(|product| product / outcome.peak_mac_per_s),
        sent_bytes_per_pass: outcome.sent_bytes_per_pass,
        setup_s: outcome.setup_s,
        cold_pass_s: outcome.cold_pass_s,
        ranks_table: outcome.ranks_table,
        warnings,
    }
}

/// A line that replaces itself, on a terminal only.
struct Progress {
    shown: bool,
}

impl Progress {
    fn new(wanted: bool) -> Self {
        Progress { shown: wanted && std::io::stderr().is_terminal() }
    }

    fn show(&self, text: &str) {
        if self.shown {
            // A terminal that is gone hides progress, nothing else.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }

    fn clear(&self) {
        self.show("");
    }
}
