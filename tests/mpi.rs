//! The program itself under mpirun: results that do not depend on the number of ranks, and failures that end the whole
//! job. `MPIRUN` may name another mpirun.
#![cfg(feature = "mpi")]

mod common;

use std::{fs, path::Path, time::Duration};

use common::{Ended, PROGRAM, eventually, mpirun, names, run_one_at_a_time, with_flags};
use lwe_mpi::{machine, report::RunReport};
use serde_json::Value;

/// A job of the program; flags are separated by blanks. It leaves no process behind.
#[track_caller]
fn job(ranks: usize, flags: &str) -> Ended {
    let command = mpirun(ranks, std::iter::once(PROGRAM).chain(flags.split_whitespace()));
    let ended = run_one_at_a_time(command);
    assert!(eventually(|| left_behind().is_empty()), "{flags}: left behind {:?}\n{}", left_behind(), ended.all());
    ended
}

/// The processes of the program.
fn left_behind() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let runs = |pid: &String| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(PROGRAM));
    entries.filter(runs).collect()
}

/// [`job`] with a report.
#[track_caller]
fn report(ranks: usize, flags: &str) -> RunReport {
    let ended = job(ranks, &format!("{flags} --json -")).expect(0);
    serde_json::from_value(ended.json()).unwrap()
}

fn host() -> String {
    nix::unistd::gethostname().unwrap().into_string().unwrap()
}

const ITEMS: &str = "--n 32 --keys 5 --encaps 3 --warmup 0 --repeat 1 --seed 2a";

#[test]
fn any_number_of_ranks_gives_the_same_fingerprint() {
    let alone = run_one_at_a_time(with_flags(&format!("{ITEMS} --json -"))).expect(0).json();
    // Eight ranks are more than keys; small batches take several rounds of messages.
    for (ranks, more) in
        [(1, ""), (2, "--batch 1"), (3, "--batch 2"), (5, ""), (8, "--threads 1"), (3, "--exchange none")]
    {
        let report = report(ranks, &format!("{ITEMS} {more}"));
        assert_eq!(report.fingerprint, alone["fingerprint"].as_str().unwrap(), "{ranks} ranks {more}");
        assert_eq!((report.ranks, report.agreement.agreed, report.agreement.total), (ranks, 15, 15));
    }
}

#[test]
fn every_rank_is_in_the_report() {
    for ranks in [1, 2, 3, 5] {
        let report = report(ranks, "--n 96 --keys 7 --encaps 2 --repeat 2");
        let rows: Vec<usize> = report.ranks_table.iter().map(|row| row.rank).collect();
        assert_eq!(rows, (0..ranks).collect::<Vec<_>>());
        for row in &report.ranks_table {
            assert_eq!((&row.host, row.local_rank), (&host(), row.rank));
            assert!(row.threads > 0 && !row.cores.is_empty() && row.peak_memory_bytes > 1 << 20, "{row:?}");
            assert!((7 / ranks..=7_usize.div_ceil(ranks)).contains(&row.keys), "{row:?}");
        }
        // Each rank encapsulates to the keys of the one before it.
        let keys: Vec<usize> = report.ranks_table.iter().map(|row| row.keys).collect();
        let encaps: Vec<usize> = report.ranks_table.iter().map(|row| row.encaps / 2).collect();
        assert_eq!((0..ranks).map(|rank| keys[(rank + ranks - 1) % ranks]).collect::<Vec<_>>(), encaps);
        assert_eq!((keys.iter().sum::<usize>(), encaps.iter().sum::<usize>()), (7, 7));
        // All encapsulation keys and ciphertexts travel once, but not from a rank to itself.
        let (ek, c) = (32 + 14 * 96 / 8, 448 * 96 + 448);
        assert_eq!(report.sent_bytes_per_pass, if ranks == 1 { 0 } else { 7 * (ek + 2 * c) });
        assert_eq!((report.hosts, report.agreement.agreed, report.agreement.total), (1, 14, 14));
        assert_ne!(report.mpi_library, "none (one process)");
        assert!(report.phases.named().iter().all(|(_, _, phase)| phase.per_s.unwrap() > 0.0), "{:?}", report.phases);
    }
    let ended = job(3, "--n 32 --keys 3 --encaps 2 --seed 5").expect(0);
    for line in ["agreement: 6 of 6", "3 ranks on 1 host", "moved between ranks: 89.0 kB a pass", "fingerprint: "] {
        assert_eq!(ended.stdout.matches(line).count(), 1, "{line}: {}", ended.all());
    }
    let rows = ended.stdout.lines().filter(|line| line.split_whitespace().nth(1) == Some(&host())).count();
    assert_eq!(rows, 3, "{}", ended.all());
    assert_eq!(ended.lines().len(), 1, "the label is said once: {}", ended.all());
}

/// Ranks that may use the same cores take different ones.
#[test]
fn ranks_of_one_host_share_its_cores() {
    let all = machine::cores();
    if all.len() < 2 {
        return;
    }
    let job = ["--bind-to", "none", PROGRAM, "--n", "32", "--keys", "2", "--json", "-", "--quiet"];
    let report: RunReport = serde_json::from_value(run_one_at_a_time(mpirun(2, job)).expect(0).json()).unwrap();
    let share = all.len() / 2;
    for (row, cores) in report.ranks_table.iter().zip(all.chunks(share)) {
        assert_eq!((row.threads, &row.cores), (share, &machine::core_list(cores)));
    }
    assert!(!report.warnings.iter().any(|warning| warning.contains("than cores")), "{:?}", report.warnings);
    // More threads than a rank has cores of its own: the system places them.
    let more = (share + 1).to_string();
    let job = job.into_iter().chain(["--threads", &more]);
    let report: RunReport = serde_json::from_value(run_one_at_a_time(mpirun(2, job)).expect(0).json()).unwrap();
    assert!(report.ranks_table.iter().all(|row| row.cores == machine::core_list(&all)), "{:?}", report.ranks_table);
}

#[test]
fn ranks_without_keys_do_no_harm() {
    for (ranks, exchange) in [(5, "ring"), (5, "none"), (2, "ring")] {
        let report = report(ranks, &format!("--n 32 --keys 1 --encaps 1 --repeat 2 --seed 1 --exchange {exchange}"));
        assert_eq!((report.agreement.agreed, report.agreement.total), (1, 1));
        let warning = format!("{} of {ranks} ranks have no key", ranks - 1);
        assert!(report.warnings.contains(&warning), "{:?}", report.warnings);
    }
}

#[test]
fn files_are_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv] = ["run.json", "run.csv"].map(|name| folder.path().join(name));
    let ended = job(3, &format!("{ITEMS} --json {} --csv {}", json.display(), csv.display())).expect(0);
    assert!(ended.stdout.contains("agreement: 15 of 15"), "{}", ended.all());
    let report: RunReport = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report.ranks, 3);
    assert_eq!(csv::Reader::from_path(&csv).unwrap().records().count(), 5);
    assert_eq!(names(folder.path()), ["run.csv", "run.json"]);
}

#[test]
fn the_other_commands_speak_once() {
    let info = job(3, "info --json -").expect(0).json();
    assert_eq!((&info["ranks"], info["ranks_table"].as_array().unwrap().len()), (&3.into(), 3));
    let ended = job(3, "selftest").expect(0);
    assert_eq!((ended.stdout.as_str(), ended.lines().len()), ("17 passed, 0 failed\n", 0));
    assert_eq!(job(2, "params --n 64 --json - --quiet").expect(0).json()["sets"].as_array().unwrap().len(), 1);
    assert_eq!(job(2, "--help").expect(0).stdout.matches("Exit codes").count(), 1);
}

#[test]
fn what_all_ranks_find_wrong_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = folder.path().join("vectors.json");
    fs::write(&vectors, "[{}]").unwrap();
    let info = job(1, "info --json - --quiet").json()["ranks_table"][0]["isa_available"].to_string();
    if let Some(isa) = ["amx", "avx512"].into_iter().find(|isa| !info.contains(isa)) {
        let ended = job(3, &format!("--isa {isa} --n 1024")).expect(3);
        let [line] = ended.lines()[..] else { panic!("{}", ended.all()) };
        assert!(line.contains(&format!("this machine has no {isa}; it has portable")), "{line}");
    }
    for (flags, code, hint) in [
        ("--n 33", 2, "multiple of 32"),
        ("--bogus", 2, "--bogus"),
        ("--n 1024 --sigma 8", 2, "--force"),
        ("--n 32 --drill panic@encaps:3", 2, "no rank 3"),
        ("--n 8192 --keys 64 --json /nowhere/out", 5, "/nowhere/out: No such file"),
        (&format!("selftest --vectors {}", vectors.display()), 5, "vectors.json: "),
        ("params --n 64 --json /nowhere/out", 5, "/nowhere/out: No such file"),
    ] {
        let ended = job(3, flags).expect(code);
        let [line] = ended.lines()[..] else { panic!("{flags}: {}", ended.all()) };
        assert!(line.contains(hint) && ended.took < Duration::from_secs(20), "{flags}: {}", ended.all());
    }
}

const PHASES: [&str; 4] = ["keygen", "exchange", "encaps", "decaps"];

/// The job with a drill, for each phase and for rank 0 and 1 of 3: it ends soon, with one line of the program's about it.
fn drill(kind: &str, more: &str, check: impl Fn(&Ended, &str, usize, usize, &str)) {
    for phase in PHASES {
        for rank in [0, 1] {
            let flags = format!("--n 32 --keys 6 --encaps 2 --drill {kind}@{phase}:{rank} {more}");
            let ended = job(3, &flags);
            assert!(ended.took < Duration::from_secs(30), "{flags}: {}", ended.all());
            let [line] = ended.failures()[..] else { panic!("{flags}: {}", ended.all()) };
            // "lwe-mpi: rank R on HOST, phase PHASE: …"
            let rest = line.strip_prefix("lwe-mpi: rank ").unwrap();
            let (speaker, rest) =
                rest.split_once(&format!(" on {}, phase ", host())).unwrap_or_else(|| panic!("{line}"));
            let (named, message) = rest.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert!(PHASES.contains(&named), "{line}");
            assert!(ended.stdout.is_empty(), "no results: {}", ended.all());
            let speaker = speaker.parse().unwrap();
            if speaker == rank {
                assert_eq!(named, phase, "{line}");
            }
            check(&ended, phase, rank, speaker, message);
        }
    }
}

#[test]
fn a_panic_ends_the_job() {
    drill("panic", "", |ended, _, rank, speaker, message| {
        assert_eq!((ended.code, speaker), (Some(101), rank), "{}", ended.all());
        assert!(message.starts_with("panic at ") && message.ends_with(": a drill"), "{message}");
    });
}

#[test]
fn an_error_ends_the_job() {
    drill("error", "", |ended, phase, rank, speaker, message| {
        assert_eq!((ended.code, speaker), (Some(3), rank), "{}", ended.all());
        assert_eq!(message, format!("device drill: {phase}: an error on purpose"));
    });
}

#[test]
fn a_killed_rank_ends_the_job() {
    drill("kill", "", |ended, _, rank, speaker, message| {
        assert!(ended.code != Some(0) && speaker != rank, "{}", ended.all());
        assert_eq!(message, format!("ended by SIGTERM: rank {rank} of this host is gone"));
    });
}

#[test]
fn a_stopped_rank_ends_the_job() {
    drill("stop", "--timeout 3", |ended, _, rank, speaker, message| {
        assert_eq!((ended.code, speaker), (Some(4), 1 - rank), "{}", ended.all());
        assert!(
            message.starts_with(&format!("MPI: rank {rank} on {} has not answered for 3 s (", host())),
            "{message}"
        );
    });
}

#[test]
fn files_outlive_a_failing_rank() {
    for drill in ["panic@decaps:1", "kill@decaps:1", "kill@decaps:0"] {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("run.json");
        fs::write(&json, "precious").unwrap();
        let ended = job(3, &format!("{ITEMS} --drill {drill} --json {}", json.display()));
        assert_ne!(ended.code, Some(0), "{}", ended.all());
        assert_eq!(fs::read_to_string(&json).unwrap(), "precious");
        assert_eq!(names(folder.path()), ["run.json"], "{drill}");
    }
}

#[test]
fn a_disagreement_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (ranks, exchange, rank, encapsulating_rank) in [(3, "ring", 1, 2), (3, "ring", 2, 0), (3, "none", 1, 1)] {
        let json = folder.path().join("run.json");
        let json_flag = json.display();
        let flags = format!("--n 32 --keys 7 --encaps 2 --exchange {exchange} --drill flip@decaps:{rank}");
        let ended = job(ranks, &format!("{flags} --json {json_flag}")).expect(1);
        // Seven keys of three ranks: 0 and 1; 2 and 3; 4, 5 and 6.
        let key = [0, 2, 4][rank];
        let line = format!(
            "  rank {rank}, key {key}, encapsulation 0 (made on rank {encapsulating_rank}): the two sides hold different \
             secrets"
        );
        assert!(ended.stdout.contains("agreement: 13 of 14\n") && ended.stdout.contains(&line), "{}", ended.all());
        assert!(ended.failures().is_empty(), "no rank has failed: {}", ended.all());
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        let failures = serde_json::json!([{
            "rank": rank, "encapsulating_rank": encapsulating_rank, "key": key, "item": 0,
            "fault": "the two sides hold different secrets",
        }]);
        assert_eq!((&report["agreement"]["failures"], &report["agreement"]["agreed"]), (&failures, &13.into()));
    }
}

/// Processes that a launcher of another MPI started.
#[test]
fn the_wrong_launcher_is_refused() {
    for variable in ["PMI_SIZE", "SLURM_NTASKS"] {
        let mut command = with_flags("--n 32");
        command.env(variable, "2");
        let ended = run_one_at_a_time(command).expect(4);
        let [line] = ended.lines()[..] else { panic!("{}", ended.all()) };
        assert!(line.contains(&format!("{variable} says 2 ranks")) && line.contains("mpirun"), "{line}");
        assert!(ended.stdout.is_empty(), "{}", ended.all());
    }
}
