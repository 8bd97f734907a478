//! CSV of a run: one row a phase, the workload's columns repeated in each.

use super::RunReport;

/// The document, with a heading row.
///
/// # Panics
/// Never: a record is written to memory.
pub fn render(report: &RunReport) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let heading = [
        "scheme",
        "n",
        "sigma",
        "keys",
        "encaps_per_key",
        "exchange",
        "ranks",
        "backend",
        "batch",
        "seed",
        "fingerprint",
        "agreed",
        "total",
        "phase",
        "operation",
        "min_s",
        "median_s",
        "p95_s",
        "max_s",
        "per_s",
    ];
    writer.write_record(heading).expect("memory takes every record");
    let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    for (name, operation, phase) in report.phases.named() {
        let record = [
            report.scheme.clone(),
            report.n.to_string(),
            number(report.sigma),
            report.keys.to_string(),
            report.encaps_per_key.to_string(),
            report.exchange.clone(),
            report.ranks.to_string(),
            report.backend.clone(),
            report.batch.to_string(),
            report.seed.clone(),
            report.fingerprint.clone(),
            report.agreement.agreed.to_string(),
            report.agreement.total.to_string(),
            name.to_string(),
            operation.to_string(),
            number(phase.min_s),
            number(phase.median_s),
            number(phase.p95_s),
            number(phase.max_s),
            number(phase.per_s),
        ];
        writer.write_record(record).expect("memory takes every record");
    }
    let bytes = writer.into_inner().expect("memory takes every record");
    String::from_utf8(bytes).expect("every field is text")
}
