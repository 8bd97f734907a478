//! The command line: flags, each checked on its own, and errors that fit one line.

pub mod values;

use std::{ffi::OsString, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};

use crate::{
    backend::select::{Backend, InstructionSet},
    bench::{drill::Drill, workload::Exchange},
    error::{Error, Result},
    failure::{MAX_LOG2_FAILURE, failure_probability},
    params::LweParams,
};
use values::{Count, Matrix, Seed, count, positive, seconds, threads};

const ABOUT: &str = "Post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters";

const LONG_ABOUT: &str = "\
Post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters.

Every MPI rank makes keys, encapsulates to its neighbour's keys and decapsulates what comes back. Rank 0 prints how fast \
that was and whether both sides of every encapsulation hold the same secret.

Without a subcommand the program does `run`. One process needs no launcher; for several ranks:
    mpirun -n 8 lwe-mpi
    srun --mpi=pmix lwe-mpi";

const AFTER_HELP: &str = "\
Examples:
    lwe-mpi                                    something worth seeing, in seconds
    mpirun -n 2 lwe-mpi --n 1024 --keys 64     64 keys over two ranks
    lwe-mpi run --n 4096 --exchange none --json run.json
    lwe-mpi params                             parameter sets, sizes, failure bounds
    lwe-mpi selftest                           known answers on every rank

Exit codes: 0 all well, 1 wrong results, 2 usage, 3 device, 4 MPI, 5 input or output, 101 a bug.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "lwe-mpi", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true, disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do; none: `run`.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `run` where there is no subcommand.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the workload on all ranks: time it, check it, report it (the default)
    Run(RunArgs),
    /// Show MPI, ranks, hosts, cores, instruction sets and devices
    Info(InfoArgs),
    /// Show parameter sets with their sizes and decryption-failure bounds
    Params(ParamsArgs),
    /// Check known answers on every rank
    Selftest(SelftestArgs),
}

/// Where the results go.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write JSON to FILE ("-": standard output; the table then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Print no table and no progress
    #[arg(long)]
    pub quiet: bool,
}

/// How ranks are started and watched.
#[derive(Args, Clone, Debug)]
pub struct JobArgs {
    /// Give a rank up that has not answered for so long; longer than one batch takes
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
    /// Threads of each rank (auto: its share of the cores that it may run on)
    #[arg(long, value_name = "T", default_value = "auto", value_parser = threads)]
    pub threads: Count,
    /// Device of each rank (auto: the best that can be used; the output says which and why)
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Instruction set of the CPU's inner loops (auto: the best of the machine; `info` lists those it has)
    #[arg(long, value_enum, default_value_t = InstructionSet::Auto)]
    pub isa: InstructionSet,
}

/// Flags of `run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Scheme: LWE-KEM, plain LWE with 256 message bits
    #[arg(long, value_enum, default_value_t = Scheme::Lwe)]
    pub scheme: Scheme,
    /// Dimension: a multiple of 32 from 32 to 32768; below 1024 insecure, for tests and scaling only
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub n: usize,
    /// Keys of all ranks together [default: two a rank]
    #[arg(long, value_name = "K", value_parser = positive)]
    pub keys: Option<usize>,
    /// Encapsulations to each key
    #[arg(long, value_name = "E", default_value = "2", value_parser = positive)]
    pub encaps: usize,
    /// ring: rank r's keys go to rank r + 1, ciphertexts come back; none: every rank uses its own keys
    #[arg(long, value_enum, default_value_t = Exchange::Ring)]
    pub exchange: Exchange,
    /// Passes before the measured ones
    #[arg(long, value_name = "PASSES", default_value_t = 1)]
    pub warmup: usize,
    /// Measured passes
    #[arg(long, value_name = "PASSES", default_value = "3", value_parser = positive)]
    pub repeat: usize,
    /// Encapsulations in one call of the scheme (auto: by memory)
    #[arg(long, value_name = "B", default_value = "auto", value_parser = count)]
    pub batch: Count,
    /// Matrices: stored whole, or regenerated piece by piece at every use (auto: stored where memory allows)
    #[arg(long, value_enum, default_value_t = Matrix::Auto)]
    pub matrix: Matrix,
    /// What all keys and messages derive from: up to 64 hexadecimal digits [default: from the system]
    #[arg(long, value_name = "HEX")]
    pub seed: Option<Seed>,
    /// Study of noise, not the standard: draw all small vectors from the rounded Gaussian of width S
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub sigma: Option<f64>,
    /// Run a set whose decryption-failure bound is above 2^-64 all the same
    #[arg(long)]
    pub force: bool,
    /// Fail on purpose, to see that the whole job ends: KIND@PHASE or KIND@PHASE:RANK, KIND one of panic, error, kill,
    /// stop, flip, PHASE one of keygen, exchange, encaps, decaps
    #[arg(long, value_name = "DRILL")]
    pub drill: Option<Drill>,
    /// Ranks, threads and devices.
    #[command(flatten)]
    pub job: JobArgs,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Write CSV, one row a phase, to FILE ("-": standard output)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
}

/// Flags of `info`.
#[derive(Args, Clone, Debug)]
pub struct InfoArgs {
    /// Ranks, threads and devices.
    #[command(flatten)]
    pub job: JobArgs,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `params`.
#[derive(Args, Clone, Debug)]
pub struct ParamsArgs {
    /// Dimensions, separated by commas [default: the paper's]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub n: Vec<usize>,
    /// The rounded Gaussian of width S instead of the standard's noise
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub sigma: Option<f64>,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `selftest`.
#[derive(Args, Clone, Debug)]
pub struct SelftestArgs {
    /// Check FILE, in the format of tests/vectors/lwe_kem.json or ctr_drbg_cavp.json, instead of the built-in answers
    #[arg(long, value_name = "FILE")]
    pub vectors: Option<String>,
    /// Ranks, threads and devices.
    #[command(flatten)]
    pub job: JobArgs,
    /// Where the results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scheme {
    /// LWE-KEM.
    Lwe,
}

impl Scheme {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Lwe => "lwe",
        }
    }
}

/// What the command line asks for at once: help, the version, or an error.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// For standard output; the program is done.
    Text(String),
    /// One line; the exit code is 2.
    Usage(String),
}

/// Reads the command line.
///
/// # Errors
/// Help, the version, or what is wrong in one line.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, Reply> {
    let cli = Cli::try_parse_from(args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Reply::Text(error.render().to_string()),
        _ => Reply::Usage(one_line(&error.render().to_string())),
    })?;
    let command = cli.command.unwrap_or(Command::Run(cli.run));
    check(&command).map_err(|error| Reply::Usage(error.to_string()))?;
    Ok(command)
}

/// Every pass leaves its times in memory.
const MAX_PASSES: usize = 1_000_000;

/// What two flags together, or a flag and a parameter set, make wrong.
fn check(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => {
            let params = parameter_set(args.n, args.sigma)?;
            if !args.force {
                refuse_failing(&params, args.sigma)?;
            }
            let items = args.keys.unwrap_or(1).checked_mul(args.encaps);
            let passes = args.warmup.checked_add(args.repeat);
            if items.is_none() || passes.is_none_or(|passes| passes > MAX_PASSES) {
                return Err(Error::Usage(format!(
                    "--keys times --encaps must be below 2^64, --warmup and --repeat together at most {MAX_PASSES}"
                )));
            }
            let place = |name: &String| std::path::absolute(name).unwrap_or_else(|_| name.into());
            if let (Some(json), Some(csv)) = (&args.output.json, &args.csv)
                && place(json) == place(csv)
            {
                return Err(Error::Usage(format!("--json and --csv both write to {json}")));
            }
        }
        Command::Params(args) => {
            args.n.iter().try_for_each(|&n| parameter_set(n, args.sigma).map(drop))?;
        }
        Command::Info(_) | Command::Selftest(_) => {}
    }
    Ok(())
}

/// Refuses a set whose decryption-failure bound is too high.
fn refuse_failing(params: &LweParams, sigma: Option<f64>) -> Result<()> {
    let failure = failure_probability(params);
    match failure.log2_per_encaps {
        Some(log2) if !failure.acceptable() => Err(Error::Usage(format!(
            "n = {}{}: an encapsulation fails with a probability of up to 2^{log2:.1}, above 2^{MAX_LOG2_FAILURE}; \
             --force runs it all the same",
            params.n(),
            sigma.map_or(String::new(), |sigma| format!(", sigma = {sigma}")),
        ))),
        _ => Ok(()),
    }
}

/// The parameter set that `--n` and `--sigma` name.
///
/// # Errors
/// [`Error::Usage`] for values outside their range.
pub fn parameter_set(n: usize, sigma: Option<f64>) -> Result<LweParams> {
    let params = LweParams::new(n)?;
    sigma.map_or(Ok(params.clone()), |sigma| params.with_sigma(sigma))
}

/// The first line of clap's message with its tips; usage and the pointer to `--help` are shorter here.
fn one_line(rendered: &str) -> String {
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut line = first.strip_prefix("error: ").unwrap_or(first).to_string();
    for more in lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information")) {
        line.push_str(if line.ends_with(':') { " " } else { "; " });
        line.push_str(more.strip_prefix("tip: ").unwrap_or(more));
    }
    line + " (lwe-mpi --help lists all flags)"
}
