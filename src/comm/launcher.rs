//! What the launcher's environment says, before and beside MPI.
//!
//! Sources: mpirun(1) of Open MPI (OMPI_COMM_WORLD_*), MPICH's Hydra and Slurm's PMI plugins (PMI_*), the PMIx
//! standard (PMIX_RANK), srun(1) (SLURM_*). Every function takes the environment as a lookup by name.

use crate::error::{Error, Result};

/// The nearest launcher first: mpirun inside a Slurm allocation sets its own and leaves Slurm's.
const SIZES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// This process's own environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// How many ranks the launcher has started, and the variable that says so; `None` where no launcher is known.
pub fn expected_ranks(environment: impl Fn(&str) -> Option<String>) -> Option<(&'static str, usize)> {
    first_number(&SIZES, environment)
}

/// What the variables of every known launcher begin with, whether it tells sizes and ranks or not: Open MPI and its
/// kin, the PMI and PMIx interfaces, Slurm, MVAPICH, Intel MPI, LSF, Flux, Cray, PBS.
const LAUNCHERS: [&str; 15] = [
    "OMPI_COMM_WORLD_",
    "PMI_",
    "PMI2_",
    "PMIX_",
    "PRTE_",
    "SLURM_",
    "MV2_",
    "I_MPI_HYDRA",
    "HYDRA_",
    "MPI_LOCAL",
    "JSM_",
    "LSB_",
    "FLUX_",
    "PALS_",
    "PBS_",
];

/// Whether any launcher may have started this process, by the names of its environment's variables.
pub fn launched(names: impl Iterator<Item = String>) -> bool {
    let mut names = names;
    names.any(|name| LAUNCHERS.iter().any(|launcher| name.starts_with(launcher)))
}

/// The names of this process's own environment.
pub fn names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

/// Which rank the launcher has made of this process; `None` where no launcher is known. Known without MPI, so that
/// what all ranks find wrong before it starts is said once.
pub fn rank(environment: impl Fn(&str) -> Option<String>) -> Option<usize> {
    first_number(&RANKS, environment).map(|(_, rank)| rank)
}

fn first_number(names: &[&'static str], environment: impl Fn(&str) -> Option<String>) -> Option<(&'static str, usize)> {
    names.iter().find_map(|&name| Some((name, environment(name)?.trim().parse().ok()?)))
}

/// Refuses a world of one rank where the launcher has started more: each process would do the whole work alone and
/// call itself rank 0. `library` is the MPI library's version, `None` for a program without MPI.
///
/// # Errors
/// [`Error::Mpi`] with advice, in one line.
pub fn check(size: usize, library: Option<&str>, environment: impl Fn(&str) -> Option<String>) -> Result<()> {
    let Some((variable, expected)) = expected_ranks(environment) else { return Ok(()) };
    if size > 1 || expected <= 1 {
        return Ok(());
    }
    Err(Error::Mpi(match library {
        Some(library) => format!(
            "{variable} says {expected} ranks, but this program's MPI ({library}) sees one: start it with the mpirun \
             of that MPI (`ldd` of the program names it), or with `srun --mpi=pmix` (`srun --mpi=list` shows the choice)"
        ),
        None => format!(
            "{variable} says {expected} ranks, but this program was built without MPI: start it as one process, or \
             build it with `--features mpi`"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    }

    #[test]
    fn a_bare_shell_is_no_launcher() {
        let names = |names: &'static [&'static str]| names.iter().map(|name| name.to_string());
        assert!(!launched(names(&["HOME", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_btl", "I_MPI_ROOT"])));
        for name in ["OMPI_COMM_WORLD_SIZE", "PMI_RANK", "SLURM_JOB_ID", "PMIX_NAMESPACE"] {
            assert!(launched(["HOME", name].into_iter().map(String::from)), "{name}");
        }
    }

    #[test]
    fn the_nearest_launcher_counts() {
        let inside_slurm = [("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(expected_ranks(environment(&inside_slurm)), Some(("OMPI_COMM_WORLD_SIZE", 1)));
        assert!(check(1, Some("X"), environment(&inside_slurm)).is_ok(), "mpirun -n 1 in an allocation of 8");
        let step = [("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")];
        assert!(check(1, Some("X"), environment(&step)).is_ok(), "srun -n 1 in an allocation of 8");
        assert_eq!(rank(environment(&[("PMI_RANK", "3"), ("SLURM_PROCID", "5")])), Some(3));
        assert_eq!((expected_ranks(environment(&[])), rank(environment(&[]))), (None, None));
        assert_eq!(
            expected_ranks(environment(&[("PMI_SIZE", "many"), ("SLURM_NTASKS", "2")])),
            Some(("SLURM_NTASKS", 2))
        );
    }

    #[test]
    fn a_lonely_rank_of_many_is_refused_with_advice() {
        for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"] {
            let pairs = [(variable, "4")];
            assert!(check(4, Some("X"), environment(&pairs)).is_ok());
            let with = check(1, Some("Open MPI v9"), environment(&pairs)).unwrap_err().to_string();
            let without = check(1, None, environment(&pairs)).unwrap_err().to_string();
            assert!(
                with.contains(&format!("{variable} says 4 ranks")) && with.contains("(Open MPI v9) sees one"),
                "{with}"
            );
            assert!(with.contains("mpirun") && with.contains("srun --mpi=pmix") && !with.contains('\n'), "{with}");
            assert!(without.contains("built without MPI") && !without.contains('\n'), "{without}");
        }
    }
}
