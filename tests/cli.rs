//! The program as its users meet it: every wrong flag and every subcommand. One process each.

mod common;

use std::{fs, time::Duration};

use common::{assert_kinds, lwe_mpi, run, with_flags};
use lwe_mpi::{
    machine,
    params::{INSECURE_LABEL, PAPER_DIMENSIONS, STUDY_LABEL},
};
use serde_json::Value;

/// A run of a moment.
const SMALL: &str = "run --n 32 --keys 2 --encaps 2 --warmup 0 --repeat 1 --seed 1";

#[test]
fn every_wrong_flag_is_one_line_and_code_2() {
    let long_seed = format!("--seed {}", "0".repeat(65));
    for (flags, hint) in [
        ("--kesy 3", "'--keys'"),
        ("--kes=3", "--kes"),
        ("-x", "-x"),
        ("fly", "'fly'"),
        ("selftset", "'selftest'"),
        ("run extra", "'extra'"),
        ("params 64", "'64'"),
        ("--n", "--n"),
        ("--n x", "--n"),
        ("--n 0", "from 32 to 32768"),
        ("--n 33", "multiple of 32"),
        ("--n 32800", "from 32 to 32768"),
        ("--n 65536", "from 32 to 32768"),
        ("--n -32", "-3"),
        ("--n 32 --n 64", "--n"),
        ("--keys 0", "at least 1"),
        ("--keys 1.5", "--keys"),
        ("--encaps 0", "at least 1"),
        ("--encaps 99999999999999999999", "--encaps"),
        ("--repeat 0", "at least 1"),
        ("--warmup -1", "-1"),
        ("--batch 0", "at least 1"),
        ("--batch x", "\"auto\""),
        ("--threads 0", "at least 1"),
        ("--threads many", "\"auto\""),
        ("--seed=", "hexadecimal"),
        ("--seed xyz", "hexadecimal"),
        (&long_seed, "64 hexadecimal"),
        ("--n 1024 --sigma 0", "from 0.25 to 25"),
        ("--n 1024 --sigma nan", "from 0.25 to 25"),
        ("--n 1024 --sigma inf", "from 0.25 to 25"),
        ("--n 1024 --sigma 100", "from 0.25 to 25"),
        ("--n 1024 --sigma -1", "-1"),
        ("--n 1024 --sigma wide", "--sigma"),
        ("--scheme kyber", "lwe"),
        ("--exchange x", "ring"),
        ("--backend cuda", "cpu"),
        ("--isa sse2", "portable"),
        ("--isa AVX2", "avx2"),
        ("selftest --isa", "--isa"),
        ("--matrix sparse", "regenerated"),
        ("--timeout 0", "time-out"),
        ("--timeout 1.5", "time-out"),
        ("--drill nonsense", "KIND@PHASE"),
        ("--drill panic@lunch", "KIND@PHASE"),
        ("--drill burn@encaps", "KIND@PHASE"),
        ("--drill flip@keygen", "decaps"),
        ("--drill kill@encaps:one", "number"),
        ("--n 32 --drill panic@encaps:9", "no rank 9"),
        ("--json same --csv same", "same"),
        ("--json - --csv -", "both"),
        ("--n 32 params", "params"),
        ("params --n 64,33", "multiple of 32"),
        ("params --n 64, --sigma 1", "--n"),
        ("params --sigma 26", "from 0.25 to 25"),
        ("info --threads 0", "at least 1"),
        ("selftest --vectors", "--vectors"),
    ] {
        let ended = lwe_mpi(flags).expect(2);
        assert!(ended.only_line().contains(hint), "{flags}: {}", ended.all());
    }
}

#[test]
fn sets_that_fail_too_often_run_forced_only() {
    for flags in ["--n 32768 --sigma 3.2", "--n 1024 --sigma 8"] {
        let ended = lwe_mpi(flags).expect(2);
        let line = ended.only_line();
        assert!(line.contains("2^-64") && line.contains("--force") && line.contains("sigma = "), "{line}");
        assert!(ended.took < Duration::from_secs(10), "{}", ended.all());
    }
    // 14 % of all bits fail: no encapsulation survives.
    let forced = "--n 1024 --sigma 8 --force --keys 1 --encaps 2 --warmup 0 --repeat 1 --seed 1 --json -";
    let report = lwe_mpi(forced).expect(1).json();
    assert_eq!((&report["agreement"]["agreed"], &report["agreement"]["total"]), (&0.into(), &2.into()));
    assert_eq!(report["agreement"]["failures"][1]["fault"], "the two sides hold different secrets");
    assert!(report["warnings"].to_string().contains("forced"), "{report}");
    assert_eq!(report["failure_log2"], 0.0);
    // Wider than the standard, and still fit to run.
    let ended = lwe_mpi("--n 1024 --sigma 2 --keys 1 --encaps 1 --warmup 0 --repeat 1 --json -").expect(0);
    assert_eq!((&ended.json()["label"], &ended.json()["sigma"]), (&STUDY_LABEL.into(), &2.0.into()));
    assert!(ended.stderr.contains(STUDY_LABEL) && ended.stderr.contains("sigma = 2 (non-standard)"), "{}", ended.all());
}

#[test]
fn help_and_version_are_on_stdout() {
    for (flags, hint) in [
        ("--help", "Exit codes"),
        ("-h", "Usage: lwe-mpi"),
        ("--version", concat!("lwe-mpi ", env!("CARGO_PKG_VERSION"))),
        ("run --help", "Usage: lwe-mpi run"),
        ("info --help", "Usage: lwe-mpi info"),
        ("params --help", "Usage: lwe-mpi params"),
        ("selftest --help", "Usage: lwe-mpi selftest"),
    ] {
        let ended = lwe_mpi(flags).expect(0);
        assert!(ended.stdout.contains(hint) && ended.stderr.is_empty(), "{flags}: {}", ended.all());
    }
    let help = lwe_mpi("--help").stdout;
    for flag in "scheme n keys encaps exchange warmup repeat batch seed sigma force drill timeout threads backend isa matrix json \
                 quiet csv help version"
        .split_whitespace()
    {
        assert!(help.contains(&format!("--{flag}")), "{flag}");
    }
}

#[test]
fn no_subcommand_is_run() {
    let flags = SMALL.strip_prefix("run ").unwrap();
    let [bare, named] = [flags, SMALL].map(|flags| lwe_mpi(&format!("{flags} --json -")).expect(0).json());
    assert_eq!((&bare["fingerprint"], &bare["command"]), (&named["fingerprint"], &"run".into()));
    // Without a seed, every run has its own.
    let [a, b] = [(); 2].map(|()| lwe_mpi("--n 32 --keys 1 --encaps 1 --repeat 1 --json -").expect(0).json());
    assert!(a["seed"] != b["seed"] && a["fingerprint"] != b["fingerprint"]);
    let seed = a["seed"].as_str().unwrap();
    let again = lwe_mpi(&format!("--n 32 --keys 1 --encaps 1 --repeat 1 --json - --seed {seed}")).expect(0).json();
    assert_eq!(again["fingerprint"], a["fingerprint"]);
}

#[test]
fn info_shows_this_machine() {
    let info = lwe_mpi("info --json -").expect(0).json();
    assert_kinds(&info, Value::is_u64, "schema_version ranks_table.0.threads ranks_table.0.available_bytes");
    assert_kinds(&info, Value::is_array, "ranks_table.0.instruction_sets ranks_table.0.isa_available");
    assert_eq!((&info["ranks"], &info["hosts"], &info["backend"]), (&1.into(), &1.into(), &"cpu".into()));
    let library = info["mpi_library"].as_str().unwrap();
    assert_eq!(library == "none (one process)", cfg!(not(feature = "mpi")), "{library}");
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert_eq!(info["ranks_table"][0]["host"], host);
    let table = lwe_mpi("info --threads 3").expect(0);
    assert!(table.stdout.contains(library) && table.stdout.contains(&host), "{}", table.all());
    assert_eq!(lwe_mpi("info --threads 3 --json -").json()["ranks_table"][0]["threads"], 3);
}

/// The instruction sets that `--isa` takes on this machine.
fn isa_available() -> Vec<String> {
    let info = lwe_mpi("info --json - --quiet").expect(0).json();
    serde_json::from_value(info["ranks_table"][0]["isa_available"].clone()).unwrap()
}

#[test]
fn every_instruction_set_gives_the_same_results() {
    let available = isa_available();
    assert_eq!(available[0], "portable");
    let flags = "run --n 128 --keys 2 --encaps 3 --warmup 0 --repeat 1 --seed 1 --json - --quiet --isa";
    let report = |isa: &str| lwe_mpi(&format!("{flags} {isa}")).expect(0).json();
    let auto = report("auto")["fingerprint"].clone();
    for isa in &available {
        let report = report(isa);
        assert_eq!(report["fingerprint"], auto, "{isa}");
        assert_eq!(report["ranks_table"][0]["isa"], isa.as_str());
        assert_eq!(lwe_mpi(&format!("selftest --isa {isa}")).expect(0).stdout, "17 passed, 0 failed\n", "{isa}");
    }
    let table = lwe_mpi("info --isa portable").expect(0);
    assert!(table.stdout.contains(&available.join(" ")), "{}", table.all());
}

#[test]
fn an_instruction_set_that_is_missing_is_refused() {
    let available = isa_available();
    for isa in ["amx", "avx512", "avx-vnni", "avx2", "portable"] {
        for command in ["run --n 1024", "info", "selftest"] {
            if !available.iter().any(|found| found == isa) {
                let ended = lwe_mpi(&format!("{command} --isa {isa}")).expect(3);
                let end = format!(": this machine has no {isa}; it has {}", available.join(", "));
                assert!(ended.only_line().ends_with(&end), "{}", ended.all());
            }
        }
    }
}

#[test]
fn matrices_give_the_same_results_in_both_forms() {
    let flags = "run --n 128 --keys 2 --encaps 3 --warmup 0 --repeat 1 --seed 1";
    let mut fingerprints = Vec::new();
    for exchange in ["ring", "none"] {
        for (asked, form, reason) in [
            ("", "stored", "auto: stored ones fit"),
            ("--matrix auto", "stored", "auto: stored ones fit"),
            ("--matrix stored", "stored", "asked for with --matrix stored"),
            ("--matrix regenerated", "regenerated", "asked for with --matrix regenerated"),
        ] {
            let ended = lwe_mpi(&format!("{flags} --exchange {exchange} {asked} --json -")).expect(0);
            let report = ended.json();
            assert_eq!(report["matrix"], form, "{asked}");
            assert!(report["matrix_reason"].as_str().unwrap().starts_with(reason), "{report}");
            assert!(ended.stderr.contains(&format!("matrices {form} ({reason}")), "{}", ended.all());
            fingerprints.push(report["fingerprint"].clone());
        }
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
}

#[test]
fn threads_have_cores_of_their_own_or_are_said_to_lack_them() {
    let run = |threads: usize| {
        let flags =
            format!("run --n 32 --keys 1 --encaps 1 --warmup 0 --repeat 1 --json - --quiet --threads {threads}");
        lwe_mpi(&flags).expect(0).json()
    };
    let (mask, crowded) = (machine::cores(), "1 of 1 ranks are on hosts with more threads than cores");
    for threads in [1, mask.len(), mask.len() + 1] {
        let report = run(threads);
        let cores = report["ranks_table"][0]["cores"].as_str().unwrap();
        assert_eq!(cores, machine::core_list(&mask[..threads.min(mask.len())]));
        assert_eq!(report["warnings"].to_string().contains(crowded), threads > mask.len(), "{report}");
        assert_eq!(report["product_efficiency"].is_null(), threads > mask.len(), "{report}");
    }
}

#[test]
fn params_shows_every_set() {
    let document = lwe_mpi("params --json - --quiet").expect(0).json();
    assert_eq!(document["max_failure_log2"], -64.0);
    let sets = document["sets"].as_array().unwrap();
    let dimensions: Vec<u64> = sets.iter().map(|set| set["n"].as_u64().unwrap()).collect();
    assert_eq!(dimensions, PAPER_DIMENSIONS.map(|n| n as u64));
    for set in sets {
        let n = set["n"].as_u64().unwrap();
        let ek = 32 + 14 * n / 8;
        let sizes = ["ek_bytes", "dk_bytes", "c_bytes", "k_bytes"].map(|name| set[name].as_u64().unwrap());
        assert_eq!(sizes, [ek, n + ek + 64, 448 * n + 448, 32], "n = {n}");
        assert_eq!((&set["scheme"], &set["runs_unforced"]), (&"lwe".into(), &true.into()));
        assert_eq!(set["label"] == INSECURE_LABEL, n < 1024);
        // About 2^-77 at the largest set, below 2^-140 elsewhere; at n = 32 no error reaches q/4.
        match set["failure_log2_per_bit"].as_f64() {
            None => assert_eq!(n, 32),
            Some(log2) => assert!(log2 < if n == 32768 { -77.0 } else { -140.0 }, "n = {n}: {log2}"),
        }
    }
    let chosen = lwe_mpi("params --n 64,1024 --sigma 8 --json - --quiet").expect(0).json();
    let chosen = chosen["sets"].as_array().unwrap();
    assert_eq!([&chosen[0]["n"], &chosen[1]["n"]], [64, 1024]);
    assert!(chosen.iter().all(|set| set["label"].as_str().unwrap().contains(STUDY_LABEL) && set["sigma"] == 8.0));
    assert_eq!(chosen[1]["runs_unforced"], false);
    let wide = lwe_mpi("params --n 32768 --sigma 3.2 --json - --quiet").expect(0).json();
    let rate = wide["sets"][0]["failure_log2_per_bit"].as_f64().unwrap().exp2();
    assert!((0.24..0.25).contains(&rate), "{rate}");

    let table = lwe_mpi("params").expect(0).stdout;
    for n in PAPER_DIMENSIONS {
        let row: Vec<&str> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .find(|row: &Vec<&str>| row.len() > 5 && row[0] == "lwe" && row[1] == n.to_string())
            .unwrap_or_else(|| panic!("n = {n}: {table}"));
        assert_eq!(row[4], (448 * n + 448).to_string());
    }
}

#[test]
fn selftest_checks_what_it_is_given() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    let built_in = lwe_mpi("selftest").expect(0);
    assert_eq!((built_in.stdout.as_str(), built_in.stderr.as_str()), ("17 passed, 0 failed\n", ""));
    let drbg: Value = serde_json::from_str(include_str!("vectors/ctr_drbg_cavp.json")).unwrap();
    let drbg: usize = drbg.as_array().unwrap().iter().map(|group| group["tests"].as_array().unwrap().len()).sum();
    for (file, passed) in [("lwe_kem.json", 12), ("ctr_drbg_cavp.json", drbg)] {
        let document = lwe_mpi(&format!("selftest --vectors {tests}/{file} --json - --quiet")).expect(0).json();
        let counts = [&document["passed"], &document["failed"], &document["ranks"]];
        assert_eq!(counts.map(|count| count.as_u64().unwrap()), [passed as u64, 0, 1], "{document}");
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors.json");
    let selftest = |text: &str| {
        fs::write(&file, text).unwrap();
        lwe_mpi(&format!("selftest --vectors {}", file.display()))
    };
    let mut kem: Value = serde_json::from_str(include_str!("vectors/lwe_kem.json")).unwrap();
    let n = kem[3]["n"].clone();
    kem[3]["shared_secret"] = "00".repeat(32).into();
    kem[4]["d"] = "00".into();
    let failed = selftest(&kem.to_string()).expect(1);
    let lines: Vec<&str> = failed.stdout.lines().collect();
    assert_eq!((lines.len(), lines[2]), (3, "10 passed, 2 failed"), "{}", failed.all());
    assert!(lines[0].starts_with(&format!("LWE-KEM n = {n} test 3, rank 0: shared_secret: ")), "{}", failed.all());
    assert!(lines[1].contains(" test 4, rank 0: "), "{}", failed.all());
    let mut drbg: Value = serde_json::from_str(include_str!("vectors/ctr_drbg_cavp.json")).unwrap();
    drbg.as_array_mut().unwrap().truncate(1);
    let output = drbg[0]["tests"][0]["Output"].as_str().unwrap().to_string();
    let flipped = if output.starts_with('0') { "1" } else { "0" };
    drbg[0]["tests"][0]["Output"] = format!("{flipped}{}", &output[1..]).into();
    let failed = selftest(&drbg.to_string()).expect(1);
    assert!(failed.stdout.contains("CTR_DRBG AES-192 df group 0 test 0, rank 0: "), "{}", failed.all());

    for text in ["", "{}", "[]", "[1]", "[{\"n\": 32}]", "\u{feff}[]", &kem.to_string().replace("shared", "lost")] {
        let ended = selftest(text).expect(5);
        assert!(ended.only_line().contains(&format!(": {}: ", file.display())), "{text}: {}", ended.all());
    }
    fs::write(&file, [0xff, 0xfe]).unwrap();
    let no_file = folder.path().join("missing.json");
    for path in [&file, &no_file, &folder.path().to_path_buf()] {
        let ended = lwe_mpi(&format!("selftest --vectors {}", path.display())).expect(5);
        assert!(ended.only_line().contains(&format!(": {}: ", path.display())), "{}", ended.all());
    }
}

#[test]
fn the_wrong_launcher_is_refused() {
    for (variable, flags) in [("SLURM_NTASKS", SMALL), ("SLURM_STEP_NUM_TASKS", "info"), ("SLURM_NTASKS", "selftest")] {
        let mut command = with_flags(flags);
        command.env(variable, "4");
        let ended = run(command).expect(4);
        let line = ended.only_line();
        let advice = if cfg!(feature = "mpi") { "mpirun" } else { "--features mpi" };
        assert!(line.contains(&format!("{variable} says 4 ranks")) && line.contains(advice), "{line}");
    }
    let mut command = with_flags("params --n 64");
    command.env("SLURM_NTASKS", "4");
    run(command).expect(0);
}

#[test]
fn what_cannot_fit_is_refused_before_any_work() {
    for (flags, code, hint) in [
        ("--n 32 --keys 1 --encaps 1000000000000", 3, "GB"),
        ("--n 32 --keys 18446744073709551615 --encaps 1", 3, "GB"),
        ("--n 32768 --keys 1 --encaps 1000000 --batch 1000000", 3, "GB"),
        ("--n 32 --keys 4294967296 --encaps 4294967296", 2, "--keys"),
        ("--n 32 --repeat 18446744073709551615", 2, "--repeat"),
        ("--n 32 --threads 2000", 2, "threads"),
        ("selftest --vectors /dev/zero", 5, "/dev/zero: "),
    ] {
        let ended = lwe_mpi(flags).expect(code);
        let lines: Vec<&str> = ended.stderr.lines().filter(|line| !line.contains("insecure size")).collect();
        let [line] = lines[..] else { panic!("{flags}: {}", ended.all()) };
        assert!(line.starts_with("lwe-mpi: ") && line.contains(hint), "{flags}: {}", ended.all());
        assert!(ended.took < Duration::from_secs(30), "{flags}: {}", ended.all());
    }
}

#[test]
fn wrong_results_are_said_in_quiet_too() {
    let ended = lwe_mpi(&format!("{SMALL} --quiet --drill flip@decaps")).expect(1);
    assert!(ended.stdout.is_empty(), "{}", ended.all());
    let line = ended.stderr.lines().last().unwrap();
    assert!(
        line.starts_with("lwe-mpi: wrong results: ") && line.contains("rank 0, key 0, encapsulation 0: "),
        "{line}"
    );
}
