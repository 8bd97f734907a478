//! Where results go: files, pipes, standard output, and what is in them. One process each.

mod common;

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    time::Duration,
};

use common::{PROGRAM, alone, assert_kinds, lwe_mpi, names, run, run_into, with_flags};
use lwe_mpi::{params::INSECURE_LABEL, report::RunReport};
use serde_json::Value;

/// A run of a moment.
const SMALL: &str = "run --n 32 --keys 2 --encaps 2 --warmup 0 --repeat 1 --seed 1";
/// A run that would take minutes.
const LONG: &str = "run --n 8192 --keys 64 --encaps 64";

#[test]
fn a_closed_stdout_is_quiet() {
    for flags in [
        "--help",
        "--version",
        "params",
        "params --json -",
        "info",
        "selftest",
        SMALL,
        &format!("{SMALL} --json -"),
        &format!("{SMALL} --csv -"),
    ] {
        for also_stderr in [false, true] {
            // Nobody reads from the first byte on, as after `| head -1` has what it wanted.
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut shell = alone("sh");
            shell.args(["-c", &format!("exec '{PROGRAM}' {flags} 2>&1")]);
            let ended = run_into(if also_stderr { shell } else { with_flags(flags) }, writer.into()).expect(0);
            assert!(!ended.stderr.contains("panic") && ended.failures().is_empty(), "{flags}: {}", ended.all());
        }
    }
    for flags in ["--help", "params", "selftest"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = run_into(with_flags(flags), full.into()).expect(5);
        assert!(ended.only_line().contains("standard output: "), "{}", ended.all());
    }
}

#[test]
fn unwritable_outputs_are_found_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let long_name = "x".repeat(300);
    let outputs = ["missing/out", ".", "file/out", "new/", "/proc/lwe-mpi-out", &long_name];
    for output in outputs {
        for flags in [format!("{LONG} --json {output}"), format!("{LONG} --csv {output}")] {
            let mut command = with_flags(&flags);
            command.current_dir(folder.path());
            let ended = run(command).expect(5);
            assert!(ended.only_line().contains(&format!(": {output}: ")), "{flags}: {}", ended.all());
            assert!(ended.took < Duration::from_secs(20), "{}", ended.all());
        }
    }
    for command in ["params", "info", "selftest"] {
        let ended = lwe_mpi(&format!("{command} --json /nowhere/out")).expect(5);
        assert!(ended.only_line().ends_with("/nowhere/out: No such file or directory (os error 2)"), "{}", ended.all());
    }
    let mut empty = with_flags(LONG);
    empty.args(["--json", ""]);
    run(empty).expect(5).only_line();
    assert_eq!(names(folder.path()), ["file"]);
}

#[test]
fn a_run_that_fails_leaves_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv] = ["old.json", "old.csv"].map(|name| folder.path().join(name));
    for (kind, code) in [("error", Some(3)), ("panic", Some(101)), ("kill", None)] {
        for path in [&json, &csv] {
            fs::write(path, "precious").unwrap();
        }
        let ended =
            lwe_mpi(&format!("{SMALL} --drill {kind}@decaps --json {} --csv {}", json.display(), csv.display()));
        assert_eq!(ended.code, code, "{}", ended.all());
        assert_eq!([&json, &csv].map(|path| fs::read_to_string(path).unwrap()), ["precious", "precious"]);
        assert_eq!(names(folder.path()), ["old.csv", "old.json"], "{kind}");
    }
}

#[test]
fn files_are_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [new, old, link] = ["new.json", "old.json", "link.json"].map(|name| folder.path().join(name));
    fs::write(&old, "x".repeat(100_000)).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("old.json", &link).unwrap();
    let mut texts = Vec::new();
    for path in [&new, &link] {
        let ended = lwe_mpi(&format!("{SMALL} --json {}", path.display())).expect(0);
        assert!(ended.stdout.contains("agreement: 4 of 4"), "the table is on standard output: {}", ended.all());
        let text = fs::read_to_string(path).unwrap();
        texts.push(serde_json::from_str::<Value>(&text).unwrap()["fingerprint"].clone());
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(link.is_symlink() && fs::read_to_string(&old).unwrap().len() < 100_000);
    assert_eq!(names(folder.path()), ["link.json", "new.json", "old.json"]);
}

/// A pipe or a device is written to, never replaced.
#[test]
fn pipes_stay_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut text = String::new();
            File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        }
    });
    lwe_mpi(&format!("{SMALL} --json {}", pipe.display())).expect(0);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "the pipe was replaced");
    assert_eq!(serde_json::from_str::<Value>(&reader.join().unwrap()).unwrap()["command"], "run");
    assert_eq!(names(folder.path()), ["pipe"]);
}

#[test]
fn json_on_stdout_is_one_whole_document() {
    let ended = lwe_mpi(&format!("{SMALL} --json -")).expect(0);
    let report = ended.json();
    assert!(ended.stderr.contains("agreement: 4 of 4") && ended.stderr.contains("keygen"), "{}", ended.all());
    assert_kinds(
        &report,
        Value::is_u64,
        "schema_version n keys encaps_per_key ranks agreement.agreed agreement.total warmup repeat hosts batch \
         keys_per_group rounds sent_bytes_per_pass ranks_table.0.rank ranks_table.0.local_rank ranks_table.0.threads \
         ranks_table.0.keys ranks_table.0.encaps ranks_table.0.peak_memory_bytes",
    );
    assert_kinds(
        &report,
        |value| value.as_str().is_some_and(|text| !text.is_empty()),
        "program_version command scheme label exchange seed mpi_library backend backend_reason matrices matrix matrix_reason fingerprint \
         ranks_table.0.host ranks_table.0.device ranks_table.0.isa ranks_table.0.cores warnings.0",
    );
    assert_kinds(&report, Value::is_array, "ranks_table warnings agreement.failures");
    assert_kinds(&report, Value::is_null, "sigma failure_log2 cold_pass_s");
    assert_kinds(&report, Value::is_f64, "setup_s peak_mac_per_s ranks_table.0.peak_mac_per_s");
    let products = ["/product_mac_per_s", "/product_efficiency", "/ranks_table/0/product_mac_per_s"];
    match products.map(|pointer| report.pointer(pointer).unwrap().as_f64()) {
        [Some(product), Some(efficiency), Some(of_rank)] => {
            assert!(product > 0.0 && product == of_rank, "{report}");
            // Readers of JSON may round the last digit.
            let ratio = product / report["peak_mac_per_s"].as_f64().unwrap();
            assert!((efficiency / ratio - 1.0).abs() < 1e-12, "{report}");
            assert!(ended.stderr.contains("14-bit multiply-adds per second: "), "{}", ended.all());
        }
        none => assert_eq!(none, [None; 3], "{report}"),
    }
    for phase in ["keygen", "encaps", "exchange", "decaps", "total"] {
        let phase = &report["phases"][phase];
        let [min, median, p95, max, per_s] = ["min_s", "median_s", "p95_s", "max_s", "per_s"]
            .map(|name| phase[name].as_f64().unwrap_or_else(|| panic!("{name} in {phase}")));
        assert!(0.0 < min && min <= median && median <= p95 && p95 <= max && per_s > 0.0, "{phase}");
    }
    assert_eq!((&report["n"], &report["keys"], &report["encaps_per_key"]), (&32.into(), &2.into(), &2.into()));
    assert_eq!(report["seed"], format!("{:0>64}", 1));
    assert_eq!(report["fingerprint"].as_str().unwrap().len(), 64);
    assert!(report["ranks_table"][0]["peak_memory_bytes"].as_u64().unwrap() > 1 << 20);

    // Neither more nor less than the type says.
    let typed: RunReport = serde_json::from_value(report.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), report);
    // What did nothing has no times.
    let lonely = lwe_mpi(&format!("{SMALL} --exchange none --json - --quiet")).expect(0).json();
    assert_eq!(lonely["phases"]["exchange"].as_object().unwrap().values().filter(|v| v.is_null()).count(), 5);
    assert_eq!(lonely["fingerprint"], report["fingerprint"]);
}

#[test]
fn quiet_prints_the_label_alone() {
    let label = format!("lwe-mpi: n = 32: {INSECURE_LABEL}\n");
    let ended = lwe_mpi(&format!("{SMALL} --quiet")).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", label.as_str()));
    let ended = lwe_mpi(&format!("{SMALL} --json -")).expect(0);
    assert_eq!(ended.stderr.matches(INSECURE_LABEL).count(), 1, "{}", ended.all());
    assert_eq!(ended.json()["label"], INSECURE_LABEL);
    let secure = lwe_mpi("--n 1024 --keys 1 --encaps 1 --warmup 0 --repeat 1 --quiet --json -").expect(0);
    assert_eq!((secure.stderr.as_str(), &secure.json()["label"]), ("", &Value::Null));
    for flags in ["info --quiet", "params --quiet", "selftest --quiet"] {
        let ended = lwe_mpi(flags).expect(0);
        assert!(ended.stdout.is_empty() && ended.stderr.is_empty(), "{flags}: {}", ended.all());
    }
}

#[test]
fn csv_agrees_with_json() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("run.csv");
    let report = lwe_mpi(&format!("{SMALL} --json - --csv {} --quiet", csv.display())).expect(0).json();
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let heading = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 5);
    for (row, phase) in rows.iter().zip(["keygen", "encaps", "exchange", "decaps", "total"]) {
        let field = |name: &str| &row[heading.iter().position(|found| found == name).unwrap()];
        assert_eq!(field("phase"), phase);
        for name in ["scheme", "n", "keys", "encaps_per_key", "exchange", "ranks", "backend", "batch", "seed"] {
            let expected = &report[name];
            assert_eq!(field(name), expected.as_str().map_or(expected.to_string(), String::from), "{name}");
        }
        assert_eq!((field("fingerprint"), field("sigma")), (report["fingerprint"].as_str().unwrap(), ""));
        assert_eq!((field("agreed"), field("total")), ("4", "4"));
        for name in ["min_s", "median_s", "p95_s", "max_s", "per_s"] {
            let (found, expected) =
                (field(name).parse::<f64>().unwrap(), report["phases"][phase][name].as_f64().unwrap());
            assert!((found / expected - 1.0).abs() < 1e-12, "{phase} {name}: {found}, {expected}");
        }
    }
    let ended = lwe_mpi(&format!("{SMALL} --csv -")).expect(0);
    assert_eq!(csv::Reader::from_reader(ended.stdout.as_bytes()).records().count(), 5, "{}", ended.all());
    assert!(ended.stderr.contains("agreement: 4 of 4"), "{}", ended.all());
}
