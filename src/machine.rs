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

/// How many cores a list as [`core_list`] writes it names.
pub fn core_count(list: &str) -> usize {
    let run = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(run).sum()
}

/// A rank's share of its cores, at least one: each core counts 1/(number of ranks on the host that may use it).
/// `masks` holds the masks of all ranks of the host, this rank's included.
pub fn core_share(mine: &[usize], masks: &[Vec<usize>]) -> usize {
    let share: f64 = mine
        .iter()
        .map(|core| 1.0 / masks.iter().filter(|mask| mask.binary_search(core).is_ok()).count().max(1) as f64)
        .sum();
    // A third of three cores is one core, in spite of rounding.
    ((share + 1e-9) as usize).max(1)
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
        let features =
            detected!("aes", "avx2", "avxvnni", "avx512f", "avx512bw", "avx512vl", "avx512vbmi2", "avx512vnni", "vaes");
        features.into_iter().filter_map(|(name, found)| found.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_read_like_taskset() {
        assert_eq!(core_list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!((core_count("0-3,8"), core_count("5"), core_count("")), (5, 1, 0));
        assert_eq!(core_list(&[5]), "5");
        assert_eq!(core_list(&[]), "");
    }

    #[test]
    fn cores_are_shared_by_the_ranks_that_may_use_them() {
        let all = vec![0, 1, 2, 3];
        assert_eq!(core_share(&all, std::slice::from_ref(&all)), 4);
        assert_eq!(core_share(&all, &[all.clone(), all.clone()]), 2);
        assert_eq!(core_share(&all, &vec![all.clone(); 3]), 1);
        assert_eq!(core_share(&all, &vec![all.clone(); 9]), 1);
        assert_eq!(core_share(&[0, 1], &[vec![0, 1], vec![2, 3]]), 2);
        assert_eq!(core_share(&[0, 1, 2], &vec![vec![0, 1, 2]; 3]), 1);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        assert!(!cores().is_empty());
        assert!(available_bytes() > 0 && peak_memory_bytes() > 0);
    }
}
