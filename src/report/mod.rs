//! What a run found, as data, and its forms: a table that people read, JSON and CSV that programs read.

pub mod csv;
pub mod output;
pub mod table;

use serde::{Deserialize, Serialize};

/// The version of the JSON documents: raised where a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of the program.
    pub program_version: String,
    /// The subcommand: "run".
    pub command: String,
    /// The scheme: "lwe".
    pub scheme: String,
    /// The dimension.
    pub n: usize,
    /// The width of the noise where `--sigma` replaced the standard's.
    pub sigma: Option<f64>,
    /// How a non-standard or insecure set is labelled.
    pub label: Option<String>,
    /// log2 of the bound on an encapsulation's decryption failure; none: it cannot fail.
    pub failure_log2: Option<f64>,
    /// Keys of all ranks together.
    pub keys: usize,
    /// Encapsulations to each key.
    pub encaps_per_key: usize,
    /// "ring" or "none".
    pub exchange: String,
    /// Passes before the measured ones.
    pub warmup: usize,
    /// Measured passes.
    pub repeat: usize,
    /// What all coins derive from, 64 hexadecimal digits.
    pub seed: String,
    /// Ranks.
    pub ranks: usize,
    /// Hosts.
    pub hosts: usize,
    /// The MPI library and its version.
    pub mpi_library: String,
    /// The backend of all ranks.
    pub backend: String,
    /// Why it was taken.
    pub backend_reason: String,
    /// Keys in one call of the scheme.
    pub keys_per_group: usize,
    /// Encapsulations in one call of the scheme.
    pub batch: usize,
    /// Rounds of encapsulation, exchange and decapsulation in a pass.
    pub rounds: usize,
    /// "resident": each rank's own matrices stay on its device; "expanded again": at every use.
    pub matrices: String,
    /// "stored": matrices lie in memory; "regenerated": every use expands them piece by piece.
    pub matrix: String,
    /// Why.
    pub matrix_reason: String,
    /// A hash over all ciphertext digests and secrets in the order of items.
    pub fingerprint: String,
    /// Whether both sides agree.
    pub agreement: Agreement,
    /// Times by phase.
    pub phases: Phases,
    /// The sum of `peak_mac_per_s` of the ranks that multiplied.
    pub peak_mac_per_s: f64,
    /// The sum of the ranks' `product_mac_per_s`; none where no rank multiplied, or threads took turns on
    /// cores.
    pub product_mac_per_s: Option<f64>,
    /// The ratio of the two.
    pub product_efficiency: Option<f64>,
    /// Bytes that crossed between ranks in one pass.
    pub sent_bytes_per_pass: u64,
    /// From the program's start to the first pass on the slowest rank: MPI, known answers, allocation.
    pub setup_s: f64,
    /// The first pass, where it was a warm-up: with cold caches and memory touched for the first time.
    pub cold_pass_s: Option<f64>,
    /// One row a rank.
    pub ranks_table: Vec<RankRow>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

/// How many encapsulations both sides agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Encapsulations that were right in every pass.
    pub agreed: usize,
    /// Encapsulations.
    pub total: usize,
    /// Some of those that were not, at most [`MOST_FAILURES`] of each rank.
    pub failures: Vec<FailureRow>,
}

/// How many failures a rank reports one by one.
pub const MOST_FAILURES: usize = 16;

/// One encapsulation that went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRow {
    /// The rank that owns the key and decapsulated.
    pub rank: usize,
    /// The rank that encapsulated.
    pub encapsulating_rank: usize,
    /// The key, counted over all ranks.
    pub key: usize,
    /// The encapsulation to that key.
    pub item: usize,
    /// What is wrong, in words.
    pub fault: String,
}

/// Times by phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// One operation: a key.
    pub keygen: Phase,
    /// One operation: an encapsulation.
    pub encaps: Phase,
    /// One operation: an encapsulation whose ciphertext travelled. All empty without exchange.
    pub exchange: Phase,
    /// One operation: a decapsulation.
    pub decaps: Phase,
    /// One operation: an encapsulation with its share of everything else.
    pub total: Phase,
}

impl Phases {
    /// The phases with their names and what one operation of each is.
    pub fn named(&self) -> [(&'static str, &'static str, &Phase); 5] {
        [
            ("keygen", "key", &self.keygen),
            ("encaps", "encapsulation", &self.encaps),
            ("exchange", "ciphertext", &self.exchange),
            ("decaps", "decapsulation", &self.decaps),
            ("total", "encapsulation", &self.total),
        ]
    }
}

/// One phase: seconds per operation on one rank over repeats and ranks, and operations per second of all ranks.
/// A field is none where the phase had nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The least of all repeats and ranks.
    pub min_s: Option<f64>,
    /// The median of all repeats and ranks.
    pub median_s: Option<f64>,
    /// The 95th percentile of all repeats and ranks.
    pub p95_s: Option<f64>,
    /// The largest of all repeats and ranks.
    pub max_s: Option<f64>,
    /// All ranks' operations over the window from the common start to the slowest rank's end; the median of repeats.
    pub per_s: Option<f64>,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRow {
    /// The rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// Its place among the ranks of its host.
    pub local_rank: usize,
    /// Its device.
    pub device: String,
    /// The instruction set or architecture in use.
    pub isa: String,
    /// The cores that its threads are pinned to, one each; or those that it may run on, where they are not pinned.
    pub cores: String,
    /// Its threads.
    pub threads: usize,
    /// The keys that it owns.
    pub keys: usize,
    /// The encapsulations that it makes.
    pub encaps: usize,
    /// 14-bit multiplications with addition per second that its device's instructions do at most, measured before the
    /// run while all ranks measured.
    pub peak_mac_per_s: f64,
    /// Those that its matrix products did, per second at them, in measured passes; none where it made none.
    pub product_mac_per_s: Option<f64>,
    /// The most memory that it has held, in bytes.
    pub peak_memory_bytes: u64,
}
