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
    ops::ProductWork,
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
    /// The sum over ranks.
    pub peak_mac_per_s: f64,
    /// The sum over the ranks that multiplied, in measured passes; none where none did.
    pub product_mac_per_s: Option<f64>,
    /// Bytes that crossed between ranks in one pass.
    pub sent_bytes_per_pass: u64,
    /// From the program's start to the first pass on the slowest rank.
    pub setup_s: f64,
    /// The first pass, where it was a warm-up.
    pub cold_pass_s: Option<f64>,
    /// One row a rank.
    pub ranks_table: Vec<RankRow>,
}

/// What the caller knows of this rank's device and is to be in its row.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The cores that its threads run on, as people write lists.
    pub cores: String,
    /// What its device's instructions do at most: [`crate::ops::Ops::peak_mac_per_s`].
    pub peak_mac_per_s: f64,
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
    place: &Place,
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
    let mut before = kem.product_work();
    for pass in 0..workload.warmup + workload.repeat {
        if pass == workload.warmup {
            before = kem.product_work();
        }
        progress(&format!("pass {} of {}", pass + 1, workload.warmup + workload.repeat));
        passes.push(runner.pass()?);
        comm.set_phase("verify");
        verdict.check(comm, workload.exchange, &runner.encapsulated, &runner.decapsulated)?;
    }
    comm.set_phase("gather");
    let device = kem.device();
    let row = RankRow {
        rank: comm.rank(),
        host: comm.host().into(),
        local_rank: comm.local_rank(),
        device: device.name,
        isa: device.isa,
        cores: place.cores.clone(),
        threads: device.units,
        keys: runner.own().len(),
        encaps: runner.peer().len() * workload.encaps_per_key,
        peak_mac_per_s: place.peak_mac_per_s,
        product_mac_per_s: product_mac_per_s(before, kem.product_work()),
        peak_memory_bytes: machine::peak_memory_bytes(),
    };
    let mine = RankResult {
        passes,
        agreed: verdict.agreed(),
        failures: verdict.failures(comm.rank(), MOST_FAILURES),
        setup_s,
        row,
    };
    let mine = serde_json::to_vec(&mine).expect("plain data");
    let Some(all) = comm.gather(&mine)? else { return Ok(None) };
    let all = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<Vec<RankResult>, _>>();
    let all = all.map_err(|error| Error::Mpi(format!("a rank's result arrived broken: {error}")))?;
    let (fingerprint, reproducible) = verdict.into_fingerprint().expect("rank 0 has the fingerprint");
    Ok(Some(outcome(workload, plan, all, fingerprint, reproducible)))
}

/// What the ranks that multiplied could do, or all where none did.
fn peak_mac_per_s(all: &[RankResult]) -> f64 {
    let some = all.iter().any(|rank| rank.row.product_mac_per_s.is_some());
    let counts = |row: &RankRow| row.product_mac_per_s.is_some() == some;
    all.iter().filter(|rank| counts(&rank.row)).map(|rank| rank.row.peak_mac_per_s).sum()
}

/// The products' speed between two readings.
fn product_mac_per_s(before: ProductWork, after: ProductWork) -> Option<f64> {
    let (macs, busy_s) = (after.macs - before.macs, after.busy_s - before.busy_s);
    (macs > 0 && busy_s > 0.0).then(|| macs as f64 / busy_s)
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
        peak_mac_per_s: peak_mac_per_s(&all),
        product_mac_per_s: all.iter().filter_map(|rank| rank.row.product_mac_per_s).reduce(|a, b| a + b),
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
