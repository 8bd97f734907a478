//! This host as the reports name it: its name, its processor, the cores that this rank may use, its memory.

use std::fs;

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrlimit, getrusage},
    unistd::Pid,
};

/// The host's name, or "unknown".
pub fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".into())
}

/// The processor's model name, or the architecture where the system does not tell.
pub fn cpu_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or(std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string())
}

/// The numbers of the cores that this process may run on, ascending: its affinity mask.
pub fn cores() -> Vec<usize> {
    match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Keeps the thread that calls this on one core. Where the system refuses, the thread stays where it may run: that is
/// slower at worst, never wrong.
pub fn stay_on(core: usize) {
    let mut set = CpuSet::new();
    if set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_err() {
        tracing::warn!(core, "a thread could not be kept on its core");
    }
}

/// A list of core numbers as people write it: "0-3,8".
pub fn core_list(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let runs = runs.iter().map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    runs.collect::<Vec<_>>().join(",")
}

/// The core numbers that a list as [`core_list`] writes it names.
pub fn core_numbers(list: &str) -> Vec<usize> {
    let run = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(run).flatten().collect()
}

/// What of its affinity mask a rank uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreShare {
    /// Its share of the cores, at least one: each core counts 1/(number of ranks on the host that may use it).
    pub count: usize,
    /// The cores that no other rank uses where all take theirs. Ranks with one mask take turns: each gets a piece of
    /// it, in the order of ranks. Empty where the mask has fewer cores than such ranks, or where it overlaps another
    /// one only in part: no piece would be this rank's alone.
    pub own: Vec<usize>,
}

impl CoreShare {
    /// The cores to pin `threads` threads to, one each: none where they are more than the own cores, as two threads
    /// pinned to one core would wait for each other while the system could still move them elsewhere.
    pub fn pins(&self, threads: usize) -> &[usize] {
        self.own.get(..threads).unwrap_or_default()
    }
}

/// The share of the rank with the mask `masks[mine]`. `masks` holds the masks of all ranks of the host, in the order
/// of ranks.
pub fn core_share(mine: usize, masks: &[Vec<usize>]) -> CoreShare {
    let mask = &masks[mine];
    let users = |core: &usize| masks.iter().filter(|mask| mask.binary_search(core).is_ok()).count();
    let share: f64 = mask.iter().map(|core| 1.0 / users(core) as f64).sum();
    // A third of three cores is one core, in spite of rounding.
    let count = ((share + 1e-9) as usize).max(1);
    // Who may use one core of the mask may use all of them, where masks are equal or disjoint.
    let same = |masks: &[Vec<usize>]| masks.iter().filter(|other| *other == mask).count();
    let whole = mask.iter().all(|core| users(core) == same(masks));
    let first = same(&masks[..mine]) * count;
    let own = if whole && same(masks) * count <= mask.len() { mask[first..first + count].to_vec() } else { Vec::new() };
    CoreShare { count, own }
}

/// The most memory that this process has held, in bytes.
pub fn peak_memory_bytes() -> u64 {
    // Linux counts in KiB.
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * 1024)
}

/// Memory that may still be allocated, in bytes: the system's estimate, or what the control group or the limit of the
/// address space (`ulimit -v`) leaves, where that is less.
pub fn available_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| {
        let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()
    });
    let limits = [available.map(|kib| kib * 1024), cgroup_available_bytes(), address_space_bytes()];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// What the limit of the address space leaves, where there is one.
fn address_space_bytes() -> Option<u64> {
    let (limit, _) = getrlimit(Resource::RLIMIT_AS).ok().filter(|&(soft, _)| soft != RLIM_INFINITY)?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix("kB"))?;
    Some(limit.saturating_sub(size.trim().parse::<u64>().ok()? * 1024))
}

/// What the innermost limit of this process's control groups (version 2) leaves.
fn cgroup_available_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut folder = std::path::Path::new("/sys/fs/cgroup").join(path);
    let mut least = None;
    while folder.starts_with("/sys/fs/cgroup") {
        let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        if let (Some(max), Some(current)) = (number("memory.max"), number("memory.current")) {
            let left = max.saturating_sub(current);
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        folder.pop();
    }
    least
}

/// The instruction set extensions that the program's loops can use and this machine has.
pub fn instruction_sets() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detected {
            ($($feature:tt),*) => {
                [$(($feature, is_x86_feature_detected!($feature))),*]
            };
        }
        let features = detected!(
            "popcnt",
            "aes",
            "avx2",
            "avxvnni",
            "avx512f",
            "avx512bw",
            "avx512vl",
            "avx512vbmi",
            "avx512vbmi2",
            "avx512vnni",
            "vaes"
        );
        let features = features.into_iter().chain([("amx-int8", has_amx_int8())]);
        features.filter_map(|(name, found)| found.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// Whether the processor has AMX's tiles and their products of 8-bit integers; the system may still not lend them.
#[cfg(target_arch = "x86_64")]
pub fn has_amx_int8() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// CPUID leaf 7, EDX: AMX-TILE and AMX-INT8.
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILE_AND_INT8 == TILE_AND_INT8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_read_like_taskset() {
        assert_eq!(core_list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(core_numbers("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!((core_numbers("5"), core_numbers("")), (vec![5], vec![]));
        assert_eq!(core_list(&[5]), "5");
        assert_eq!(core_list(&[]), "");
    }

    /// The share of every rank: how many cores, and which are its own.
    fn shares(masks: &[impl AsRef<[usize]>]) -> Vec<(usize, Vec<usize>)> {
        let masks: Vec<Vec<usize>> = masks.iter().map(|mask| mask.as_ref().to_vec()).collect();
        let share = |rank| core_share(rank, &masks);
        (0..masks.len()).map(share).map(|CoreShare { count, own }| (count, own)).collect()
    }

    #[test]
    fn ranks_with_one_mask_take_turns() {
        assert_eq!(shares(&[&[0, 1, 2, 3]]), [(4, vec![0, 1, 2, 3])]);
        assert_eq!(shares(&[&[0, 1]; 2]), [(1, vec![0]), (1, vec![1])]);
        assert_eq!(shares(&[&[0, 1, 2, 3]; 2]), [(2, vec![0, 1]), (2, vec![2, 3])]);
        assert_eq!(shares(&[&[0, 1, 2, 3]; 3]), [(1, vec![0]), (1, vec![1]), (1, vec![2])]);
        assert_eq!(shares(&[&[0, 1, 2]; 3]), [(1, vec![0]), (1, vec![1]), (1, vec![2])]);
        // A mask with gaps, and ranks of another one between.
        assert_eq!(
            shares(&[&[1, 5, 8, 9][..], &[2, 3], &[1, 5, 8, 9]]),
            [(2, vec![1, 5]), (2, vec![2, 3]), (2, vec![8, 9])]
        );
    }

    #[test]
    fn disjoint_masks_are_owned_whole() {
        assert_eq!(shares(&[&[0, 1], &[2, 3]]), [(2, vec![0, 1]), (2, vec![2, 3])]);
        assert_eq!(shares(&[&[3], &[0]]), [(1, vec![3]), (1, vec![0])]);
    }

    #[test]
    fn what_is_shared_in_part_is_nobodys_own() {
        assert_eq!(shares(&[&[0, 1, 2, 3], &[2, 3, 4, 5]]), [(3, vec![]), (3, vec![])]);
        assert_eq!(shares(&[&[0, 1, 2, 3][..], &[0, 1]]), [(3, vec![]), (1, vec![])]);
        // Two of one mask, and a third rank inside it.
        assert_eq!(shares(&[&[0, 1, 2, 3][..], &[0, 1, 2, 3], &[0]]), [(1, vec![]), (1, vec![]), (1, vec![])]);
        // More ranks than cores.
        assert_eq!(shares(&[&[0, 1]; 3]), vec![(1, vec![]); 3]);
    }

    #[test]
    fn more_threads_than_own_cores_are_not_pinned() {
        let share = core_share(1, &[vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!((share.pins(1), share.pins(2)), (&[2][..], &[2, 3][..]));
        assert!(share.pins(3).is_empty());
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        assert!(!cores().is_empty());
        assert!(available_bytes() > 0 && peak_memory_bytes() > 0);
    }
}
