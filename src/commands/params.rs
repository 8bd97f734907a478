//! `lwe-mpi params`: parameter sets with sizes and decryption-failure bounds.

use anyhow::Result;
use serde::Serialize;

use super::Outputs;
use crate::{
    cli::{self, ParamsArgs},
    comm::launcher,
    failure::{MAX_LOG2_FAILURE, failure_probability},
    params::PAPER_DIMENSIONS,
    report::{
        SCHEMA_VERSION,
        table::{align_right, plain_table},
    },
};

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    program_version: &'static str,
    command: &'static str,
    /// log2 of the largest failure bound of an encapsulation that runs unforced.
    max_failure_log2: f64,
    sets: Vec<Set>,
}

#[derive(Serialize)]
struct Set {
    scheme: &'static str,
    n: usize,
    sigma: Option<f64>,
    label: Option<String>,
    ek_bytes: usize,
    dk_bytes: usize,
    c_bytes: usize,
    k_bytes: usize,
    /// Standard deviation of the error that decryption must round away; it fails beyond q/4 = 3072.
    error_standard_deviation: f64,
    /// log2 of the probability that a message bit decodes wrongly; none: it cannot.
    failure_log2_per_bit: Option<f64>,
    /// log2 of the bound for a whole encapsulation; none: it cannot fail.
    failure_log2: Option<f64>,
    /// Whether `run` takes it without --force.
    runs_unforced: bool,
}

pub(super) fn execute(args: &ParamsArgs) -> Result<()> {
    if launcher::rank(launcher::environment).unwrap_or(0) != 0 {
        return Ok(());
    }
    let outputs = Outputs::open(&args.output)?;
    let dimensions = if args.n.is_empty() { &PAPER_DIMENSIONS[..] } else { &args.n };
    let sets = dimensions.iter().map(|&n| set(n, args.sigma)).collect::<Result<Vec<_>>>()?;
    let table = table(&sets);
    let document = Document {
        schema_version: SCHEMA_VERSION,
        program_version: env!("CARGO_PKG_VERSION"),
        command: "params",
        max_failure_log2: MAX_LOG2_FAILURE,
        sets,
    };
    outputs.write(&table, &document)
}

fn set(n: usize, sigma: Option<f64>) -> Result<Set> {
    let params = cli::parameter_set(n, sigma)?;
    let failure = failure_probability(&params);
    Ok(Set {
        scheme: "lwe",
        n,
        sigma,
        label: params.label(),
        ek_bytes: params.ek_bytes(),
        dk_bytes: params.dk_bytes(),
        c_bytes: params.c_bytes(),
        k_bytes: crate::params::SEED_BYTES,
        error_standard_deviation: failure.standard_deviation,
        failure_log2_per_bit: failure.log2_per_bit,
        failure_log2: failure.log2_per_encaps,
        runs_unforced: failure.acceptable(),
    })
}

fn table(sets: &[Set]) -> String {
    let heading = [
        "scheme",
        "n",
        "ek bytes",
        "dk bytes",
        "c bytes",
        "K bytes",
        "error sd",
        "failure a bit",
        "a ciphertext",
        "remarks",
    ];
    let mut table = plain_table(heading);
    let power = |log2: Option<f64>| log2.map_or("never".into(), |log2| format!("2^{log2:.1}"));
    for set in sets {
        let refused = (!set.runs_unforced).then(|| "runs with --force only".to_string());
        let remarks: Vec<String> = set.label.clone().into_iter().chain(refused).collect();
        table.add_row([
            set.scheme.into(),
            set.n.to_string(),
            set.ek_bytes.to_string(),
            set.dk_bytes.to_string(),
            set.c_bytes.to_string(),
            set.k_bytes.to_string(),
            format!("{:.1}", set.error_standard_deviation),
            power(set.failure_log2_per_bit),
            power(set.failure_log2),
            remarks.join("; "),
        ]);
    }
    align_right(&mut table, 1..9);
    table.trim_fmt() + "\n"
}
