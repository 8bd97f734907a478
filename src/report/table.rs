//! The table that a person reads.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets::NOTHING};

use super::{MOST_FAILURES, Phase, RunReport};

/// A run, in lines of text.
///
/// # Panics
/// Never: text is written to memory.
pub fn render(report: &RunReport) -> String {
    let mut text = String::new();
    heading(&mut text, report).expect("memory takes every line");
    let _ = writeln!(text, "{}\n", phases(report).trim_fmt());
    results(&mut text, report).expect("memory takes every line");
    let _ = writeln!(text, "\n{}", ranks(report).trim_fmt());
    // What the set is called was said when the run began.
    let is_label = |warning: &&String| report.label.as_ref().is_some_and(|label| warning.ends_with(label));
    for (i, warning) in report.warnings.iter().filter(|warning| !is_label(warning)).enumerate() {
        let _ = writeln!(text, "{}warning: {warning}", if i == 0 { "\n" } else { "" });
    }
    text
}

fn heading(text: &mut String, report: &RunReport) -> std::fmt::Result {
    let set = match report.sigma {
        None => format!("LWE-KEM n = {}", report.n),
        Some(sigma) => format!("LWE-KEM n = {}, sigma = {sigma} (non-standard)", report.n),
    };
    writeln!(
        text,
        "{set}: {} × {}, exchange {}, {} + {}",
        count(report.keys, "key"),
        count(report.encaps_per_key, "encapsulation"),
        report.exchange,
        count(report.warmup, "warm-up pass"),
        count(report.repeat, "measured pass"),
    )?;
    writeln!(
        text,
        "{} on {}, {} ({})\nbatches of {}; matrices {} ({}), {}\n",
        count(report.ranks, "rank"),
        count(report.hosts, "host"),
        report.backend,
        report.backend_reason,
        report.batch,
        report.matrix,
        report.matrix_reason,
        report.matrices,
    )
}

fn phases(report: &RunReport) -> Table {
    let mut table = plain_table(["phase", "one operation", "min", "median", "p95", "max", "all ranks"]);
    for (name, operation, phase) in report.phases.named() {
        let Phase { min_s, median_s, p95_s, max_s, per_s } = phase;
        let times = [min_s, median_s, p95_s, max_s].map(|s| s.map_or("–".into(), seconds));
        let rate = per_s.map_or("–".into(), |rate| format!("{} /s", significant(rate)));
        let [min, median, p95, max] = times;
        table.add_row([name.into(), operation.into(), min, median, p95, max, rate]);
    }
    align_right(&mut table, 2..7);
    table
}

fn results(text: &mut String, report: &RunReport) -> std::fmt::Result {
    if let (Some(product), Some(efficiency)) = (report.product_mac_per_s, report.product_efficiency) {
        let (product, peak) = (prefixed(product), prefixed(report.peak_mac_per_s));
        let percent = 100.0 * efficiency;
        writeln!(text, "product: {product} of {peak} 14-bit multiply-adds per second: {percent:.0} %")?;
    }
    writeln!(text, "moved between ranks: {} a pass", bytes(report.sent_bytes_per_pass))?;
    writeln!(text, "agreement: {} of {}", report.agreement.agreed, report.agreement.total)?;
    let shown = report.agreement.failures.len().min(MOST_FAILURES);
    for failure in &report.agreement.failures[..shown] {
        writeln!(
            text,
            "  rank {}, key {}, encapsulation {} (made on rank {}): {}",
            failure.rank, failure.key, failure.item, failure.encapsulating_rank, failure.fault
        )?;
    }
    let failed = report.agreement.total - report.agreement.agreed;
    if failed > shown {
        writeln!(text, "  … and {} more", failed - shown)?;
    }
    writeln!(text, "fingerprint: {}", report.fingerprint)?;
    writeln!(text, "seed: {}", report.seed)
}

fn ranks(report: &RunReport) -> Table {
    let mut table = plain_table(["rank", "host", "device", "cores", "threads", "keys", "encaps", "peak memory"]);
    for row in &report.ranks_table {
        table.add_row([
            row.rank.to_string(),
            row.host.clone(),
            format!("{} ({})", row.device, row.isa),
            row.cores.clone(),
            row.threads.to_string(),
            row.keys.to_string(),
            row.encaps.to_string(),
            bytes(row.peak_memory_bytes),
        ]);
    }
    align_right(&mut table, [0, 4, 5, 6, 7]);
    table
}

/// A table without frame whose columns are as wide as their contents.
pub fn plain_table<const N: usize>(heading: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(heading);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Aligns columns of numbers.
pub fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// "1 key", "2 keys", "1 warm-up pass", "3 warm-up passes".
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 {
        ""
    } else if what.ends_with('s') {
        "es"
    } else {
        "s"
    };
    format!("{number} {what}{plural}")
}

/// Three significant digits, more where the integer part has more.
pub fn significant(x: f64) -> String {
    let digits = if x.abs() >= 100.0 {
        0
    } else if x.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{x:.digits$}")
}

/// A time with its unit.
pub fn seconds(s: f64) -> String {
    let (scale, unit) = match s {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        _ => (1e6, "µs"),
    };
    format!("{} {unit}", significant(s * scale))
}

/// A large number with its prefix: "383 G".
pub fn prefixed(x: f64) -> String {
    let (scale, prefix) = match x {
        x if x >= 1e15 => (1e15, "P"),
        x if x >= 1e12 => (1e12, "T"),
        x if x >= 1e9 => (1e9, "G"),
        _ => (1e6, "M"),
    };
    format!("{} {prefix}", significant(x / scale))
}

/// An amount of memory or traffic with its unit, in powers of ten.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", significant(count as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", significant(count as f64 / 1e6)),
        _ => format!("{} GB", significant(count as f64 / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_and_three_digits() {
        assert_eq!(seconds(0.0131), "13.1 ms");
        assert_eq!(seconds(2.5), "2.50 s");
        assert_eq!(seconds(0.000_000_42), "0.42 µs");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_835_456), "1.84 MB");
        assert_eq!(significant(1234.5), "1234");
        assert_eq!(prefixed(3.829e11), "383 G");
        assert_eq!((prefixed(1.5e6), prefixed(4.25e16)), ("1.50 M".into(), "42.5 P".into()));
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!((count(1, "key"), count(2, "key")), ("1 key".into(), "2 keys".into()));
        assert_eq!(count(0, "warm-up pass"), "0 warm-up passes");
    }
}
