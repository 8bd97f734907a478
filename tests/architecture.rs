//! The arrows of the design: which module may use which, and what every source file looks like.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Each module of the library and the modules that it may use.
const ARROWS: &[(&str, &str)] = &[
    ("backend", "drbg error hash machine noise ops params"),
    ("bench", "comm error hash machine ops report schemes"),
    ("cli", "backend bench error failure params"),
    ("comm", "error machine"),
    ("commands", "backend bench cli comm error failure machine ops params report schemes selftest"),
    ("drbg", "hash"),
    ("error", "drbg schemes"),
    ("failure", "noise params"),
    ("hash", ""),
    ("machine", ""),
    ("noise", "error"),
    ("ops", "error noise"),
    ("params", "error noise"),
    ("report", "error"),
    ("schemes", "drbg error hash ops params"),
    ("selftest", "drbg error hash ops params schemes"),
];

struct Source {
    /// Relative to src.
    path: String,
    text: String,
}

impl Source {
    /// The text without comments and unit tests.
    fn code(&self) -> String {
        let end = self.text.find("#[cfg(test)]\nmod tests").unwrap_or(self.text.len());
        let lines = self.text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.map(|line| line.split(" // ").next().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// The module's path: "backend::cpu::matrix" of backend/cpu/matrix.rs.
    fn module(&self) -> Vec<String> {
        let path = self.path.strip_suffix(".rs").unwrap();
        path.split('/').filter(|part| *part != "mod").map(String::from).collect()
    }

    /// Every path that the code names, from the crate's root where it begins with `crate`, `self` or `super`.
    fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        let tokens = tokens(&self.code());
        let mut at = 0;
        while at < tokens.len() {
            at = path(&tokens, at, &mut Vec::new(), &mut paths);
        }
        for path in &mut paths {
            let mut base = match path[0].as_str() {
                "crate" => Vec::new(),
                "self" | "super" if path.len() > 1 => self.module(),
                _ => continue,
            };
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len() - ups);
            let rest = path.split_off(ups.max(1));
            *path = [vec!["crate".into()], base, rest].concat();
        }
        paths
    }
}

/// Names, `::`, and single characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in code.chars() {
        let of_name = |c: char| c.is_alphanumeric() || c == '_';
        match tokens.last_mut() {
            Some(last) if of_name(c) && of_name(before) => last.push(c),
            Some(last) if c == ':' && last == ":" && before == ':' => last.push(c),
            _ if c.is_whitespace() => {}
            _ => tokens.push(c.into()),
        }
        before = c;
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads a path at `at`, with all branches of `a::{b, c::d}`, or skips a token; returns where to go on.
fn path(tokens: &[String], mut at: usize, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") if !prefix.is_empty() => {
                at += 1;
                while tokens[at] != "}" {
                    at = path(tokens, at, &mut prefix.clone(), paths);
                }
                return at + 1;
            }
            Some(name) if is_name(name) => prefix.push(name.into()),
            _ => break,
        }
        at += 1;
        if tokens.get(at).map(String::as_str) != Some("::") {
            break;
        }
        at += 1;
    }
    if prefix.len() > depth {
        paths.push(prefix.clone());
        at
    } else {
        at + 1
    }
}

fn sources() -> Vec<Source> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files);
    files.sort();
    assert!(files.len() > 30);
    let source = |file: &PathBuf| Source {
        path: file.strip_prefix(&src).unwrap().to_str().unwrap().into(),
        text: fs::read_to_string(file).unwrap(),
    };
    files.iter().map(source).collect()
}

/// The program and the library's map, which name everything.
fn is_root(source: &Source) -> bool {
    ["main.rs", "lib.rs"].contains(&source.path.as_str())
}

#[test]
fn paths_are_read_as_rust_reads_them() {
    let source = Source {
        path: "bench/verify.rs".into(),
        text:
            "use super::{pass::next, plan};\nuse crate::{\n    comm::{self, Comm},\n    hash,\n};\n// crate::nowhere\n\
               fn f(x: ::mpi::Y) { crate::error::g::<T>(super::super::machine::h); }\n"
                .into(),
    };
    let paths: Vec<String> = source.paths().iter().map(|path| path.join("::")).collect();
    for expected in [
        "crate::bench::pass::next",
        "crate::bench::plan",
        "crate::comm::Comm",
        "crate::hash",
        "mpi::Y",
        "crate::error::g",
        "crate::machine::h",
    ] {
        assert!(paths.iter().any(|path| path == expected), "{expected} in {paths:?}");
    }
    assert!(!paths.iter().any(|path| path.contains("nowhere")));
}

#[test]
fn modules_use_only_what_they_may() {
    let mut used = BTreeSet::new();
    for source in sources().iter().filter(|source| !is_root(source)) {
        let module = source.module()[0].clone();
        let allowed = ARROWS.iter().find(|(name, _)| *name == module);
        let allowed = allowed.unwrap_or_else(|| panic!("{} is not in the list of arrows", source.path)).1;
        for path in source.paths().iter().filter(|path| path[0] == "crate" && path.len() > 1) {
            let target = &path[1];
            let known = ARROWS.iter().any(|(name, _)| name == target);
            // What is no module is an item of this very one, as in `super::Item`.
            assert!(known || path.len() == 2, "{}: {}", source.path, path.join("::"));
            let right = !known || *target == module || allowed.split_whitespace().any(|name| name == target);
            assert!(right, "{}: {module} may not use {}", source.path, path.join("::"));
            used.insert((module.clone(), target.clone()));
        }
    }
    // An arrow that nothing needs any more goes from the list.
    for (module, allowed) in ARROWS {
        for target in allowed.split_whitespace() {
            assert!(used.contains(&(module.to_string(), target.to_string())), "{module} does not use {target}");
        }
    }
}

/// Each backend is named in its folder and where one is chosen, its threads in its folder, and MPI in one file.
#[test]
fn concrete_backends_and_mpi_have_one_place() {
    for source in sources() {
        let in_cpu = source.path.starts_with("backend/cpu/");
        let chooses = source.path == "backend/select.rs";
        for path in source.paths() {
            let text = path.join("::");
            let names_cpu = text.contains("backend::cpu") || path.iter().any(|part| part == "Cpu");
            assert!(!names_cpu || in_cpu || chooses, "{}: {text}", source.path);
            let backend = path[0] == "crate" && path.get(1).is_some_and(|part| part == "backend");
            let through_select = path.get(2).is_some_and(|part| part == "select");
            assert!(!backend || in_cpu || chooses || through_select, "{}: {text}", source.path);
            // In comm/mod.rs `mpi` is the file of that name.
            let is_mpi = path[0] == "mpi" && path.len() > 1 && source.path != "comm/mod.rs";
            assert!(!is_mpi || source.path == "comm/mpi.rs", "{}: {text}", source.path);
        }
        assert!(!source.code().contains("::mpi::") || source.path == "comm/mpi.rs", "{}: the crate mpi", source.path);
    }
}

#[test]
fn source_files_are_short_documented_and_finished() {
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        assert!(lines.len() < 500, "{} has {} lines", source.path, lines.len());
        assert!(lines[0].starts_with("//! "), "{} has no module documentation", source.path);
        for word in ["todo!", "unimplemented!", "FIXME", "TODO", "XXX", "dbg!"] {
            assert!(!source.text.contains(word), "{} holds {word}", source.path);
        }
    }
}

/// `unsafe fn` says under "# Safety" what its callers owe; every other `unsafe` has its reason right above.
#[test]
fn every_unsafe_has_its_reason() {
    let mut found = 0;
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate() {
            let is_code = !line.starts_with("//") && !line.starts_with("#[");
            if !is_code || !tokens(line).iter().any(|token| token == "unsafe") {
                continue;
            }
            found += 1;
            let reason = if tokens(line)
                .windows(2)
                .any(|pair| pair[0] == "unsafe" && ["fn", "trait"].contains(&pair[1].as_ref()))
            {
                let above = lines[..i].iter().rev();
                above
                    .take_while(|line| line.starts_with("///") || line.starts_with("#["))
                    .any(|line| *line == "/// # Safety")
            } else {
                // The statement may have begun up to two lines before.
                let mut above = lines[..i].iter().rev();
                let skipped = above.clone().take(3).take_while(|line| !line.starts_with("//")).count();
                if skipped > 0 {
                    above.nth(skipped - 1);
                }
                above.take_while(|line| line.starts_with("//")).any(|line| line.starts_with("// SAFETY: "))
            };
            assert!(reason, "{}, line {}: {line}", source.path, i + 1);
        }
    }
    assert!(found > 5);
}
