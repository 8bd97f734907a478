//! A whole run: plan, warm-up, measured passes, and what rank 0 makes of all ranks' times.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{
    drill::Drill,
    pass::{PassTimes, PhaseTime, Runner},
    plan::Plan,
    stats,
    verify::{Failure, Verdict},
    workload::{Exchange, Workload},
};
use crate::{
    comm::Comm,
    error::{Error, Result},
    machine,
    ops::DeviceInfo,
    report::{Agreement, FailureRow, MOST_FAILURES, Phase, Phases, RankRow},
    schemes::Kem,
};

/// What a run found; the caller adds what it knows of the scheme and the backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The cut that all ranks followed.
    pub plan: Plan,
    /// Hash over all results in the order of items.
    pub fingerprint: String,
    /// Whether every pass had that fingerprint.
    pub reproducible: bool,
    /// What both sides agree on.
    pub agreement: Agreement,
    /// Times by phase.
    pub phases: Phases,
    /// Bytes that crossed between ranks in one pass.
    pub sent_bytes_per_pass: u64,
    /// From the program's start to the first pass on the slowest rank.
    pub setup_s: f64,
    /// The first pass, where it was a warm-up.
    pub cold_pass_s: Option<f64>,
    /// One row a rank.
    pub ranks_table: Vec<RankRow>,
}

/// What one rank tells rank 0.
#[derive(Serialize, Deserialize)]
struct RankResult {
    passes: Vec<PassTimes>,
    agreed: usize,
    failures: Vec<Failure>,
    setup_s: f64,
    row: RankRow,
}

/// Runs `workload` on all ranks. `started` is when the program began; `progress` hears of each pass before it starts.
/// Rank 0 gets the outcome.
///
/// # Errors
/// The device's, the scheme's and MPI's.
pub fn run<K: Kem>(
    kem: &K,
    comm: &Comm,
    workload: &Workload,
    drill: Option<&Drill>,
    started: Instant,
    progress: impl Fn(&str),
) -> Result<Option<Outcome>> {
    comm.set_phase("plan");
    let plan = Plan::agree(kem, comm, workload)?;
    let mut runner = Runner::new(kem, comm, workload, plan, drill)?;
    let mut verdict = Verdict::new(runner.own(), workload.encaps_per_key);
    let setup_s = started.elapsed().as_secs_f64();
    let mut passes = Vec::new();
    for pass in 0..workload.warmup + workload.repeat {
        progress(&format!("pass {} of {}", pass + 1, workload.warmup + workload.repeat));
        passes.push(runner.pass()?);
        comm.set_phase("verify");
        verdict.check(comm, workload.exchange, &runner.encapsulated, &runner.decapsulated)?;
    }
    comm.set_phase("gather");
    let mine = RankResult {
        passes,
        agreed: verdict.agreed(),
        failures: verdict.failures(comm.rank(), MOST_FAILURES),
        setup_s,
        row: rank_row(comm, &kem.device(), runner.own().len(), runner.peer().len() * workload.encaps_per_key),
    };
    let mine = serde_json::to_vec(&mine).expect("plain data");
    let Some(all) = comm.gather(&mine)? else { return Ok(None) };
    let all = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<Vec<RankResult>, _>>();
    let all = all.map_err(|error| Error::Mpi(format!("a rank's result arrived broken: {error}")))?;
    let (fingerprint, reproducible) = verdict.into_fingerprint().expect("rank 0 has the fingerprint");
    Ok(Some(outcome(workload, plan, all, fingerprint, reproducible)))
}

fn rank_row(comm: &Comm, device: &DeviceInfo, keys: usize, encaps: usize) -> RankRow {
    RankRow {
        rank: comm.rank(),
        host: comm.host().into(),
        local_rank: comm.local_rank(),
        device: device.name.clone(),
        isa: device.isa.clone(),
        cores: machine::core_list(&machine::cores()),
        threads: device.units,
        keys,
        encaps,
        peak_memory_bytes: machine::peak_memory_bytes(),
    }
}

fn outcome(workload: &Workload, plan: Plan, all: Vec<RankResult>, fingerprint: String, reproducible: bool) -> Outcome {
    let ranks = all.len();
    let failures = all.iter().flat_map(|rank| &rank.failures).map(|failure| FailureRow {
        rank: failure.rank,
        encapsulating_rank: match workload.exchange {
            Exchange::Ring => (failure.rank + 1) % ranks,
            Exchange::None => failure.rank,
        },
        key: failure.key,
        item: failure.item,
        fault: failure.fault.describe().into(),
    });
    let agreement = Agreement {
        agreed: all.iter().map(|rank| rank.agreed).sum(),
        total: workload.keys * workload.encaps_per_key,
        failures: failures.collect(),
    };
    let slowest = |pass: usize| all.iter().map(|rank| rank.passes[pass].total.busy_s).fold(0.0, f64::max);
    Outcome {
        plan,
        fingerprint,
        reproducible,
        agreement,
        phases: phases(workload, &all),
        sent_bytes_per_pass: all.iter().map(|rank| rank.passes[0].sent_bytes).sum(),
        setup_s: all.iter().map(|rank| rank.setup_s).fold(0.0, f64::max),
        cold_pass_s: (workload.warmup > 0).then(|| slowest(0)),
        ranks_table: all.into_iter().map(|rank| rank.row).collect(),
    }
}

fn phases(workload: &Workload, all: &[RankResult]) -> Phases {
    // Decapsulations are the owner's, encapsulations the neighbour's.
    let keys = |row: &RankRow| row.keys;
    let decaps = |row: &RankRow| row.keys * workload.encaps_per_key;
    let encaps = |row: &RankRow| row.encaps;
    let exchange = match workload.exchange {
        Exchange::Ring => phase(workload, all, decaps, |pass| &pass.exchange),
        Exchange::None => Phase::default(),
    };
    Phases {
        keygen: phase(workload, all, keys, |pass| &pass.keygen),
        encaps: phase(workload, all, encaps, |pass| &pass.encaps),
        exchange,
        decaps: phase(workload, all, decaps, |pass| &pass.decaps),
        total: phase(workload, all, encaps, |pass| &pass.total),
    }
}

/// The statistics of one phase over the measured passes; `operations` tells how many of its operations a rank does.
fn phase(
    workload: &Workload,
    all: &[RankResult],
    operations: impl Fn(&RankRow) -> usize,
    time: impl Fn(&PassTimes) -> &PhaseTime,
) -> Phase {
    let mut samples = Vec::new();
    let mut total = 0;
    for rank in all {
        let count = operations(&rank.row);
        total += count;
        if count > 0 {
            samples.extend(rank.passes[workload.warmup..].iter().map(|pass| time(pass).busy_s / count as f64));
        }
    }
    // The common window of a pass: each round lasts until its slowest rank is done.
    let window = |pass: usize| -> f64 {
        let rounds = time(&all[0].passes[pass]).windows_s.len();
        let slowest =
            |round: usize| all.iter().map(|rank| time(&rank.passes[pass]).windows_s[round]).fold(0.0, f64::max);
        (0..rounds).map(slowest).sum()
    };
    let passes = workload.warmup..workload.warmup + workload.repeat;
    let rates: Vec<f64> = passes.map(|pass| total as f64 / window(pass)).collect();
    stats::summary(&samples).map_or(Phase::default(), |summary| Phase {
        min_s: Some(summary.min),
        median_s: Some(summary.median),
        p95_s: Some(summary.p95),
        max_s: Some(summary.max),
        per_s: stats::median(&rates),
    })
}
