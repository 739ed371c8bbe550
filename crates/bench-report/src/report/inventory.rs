//! The tables that are lists: searches with their probes, and the files with their machines.

use super::document::{Block, Table};
use super::model::{Group, Report, Source};
use super::number;
use bench::result::{Phase, SlaOver};

/// What each search found.
pub(super) fn searches(group: &Group) -> Table {
    let columns = ["", "Conditions", "Highest load", "Requests/s", "Confirmed by", "Verdict"];
    let rows = group.rows.iter().filter_map(|row| {
        let sla = row.sla.as_ref()?;
        let load = match sla.over {
            SlaOver::Rate => format!("{} requests/s", number::rate(sla.verdict.load)),
            SlaOver::Connections => format!("{:.0} connections", sla.verdict.load),
        };
        Some(vec![
            number::name(row),
            sla.conditions.join(", "),
            if sla.verdict.met { load } else { "none".to_owned() },
            number::rate(sla.verdict.requests_per_second),
            format!("{} runs", sla.verdict.confirmed),
            sla.verdict.message.clone(),
        ])
    });
    let rows = rows.collect();
    Table { caption: "The search".to_owned(), columns: owned(&columns), rows, figures: false }
}

/// Every probe of every search.
pub(super) fn probes(group: &Group) -> Vec<Block> {
    let searched = group.rows.iter().filter_map(|row| Some((row, row.sla.as_ref()?)));
    searched
        .map(|(row, sla)| {
            let rows = sla.probes.iter().map(|probe| {
                let phase = match probe.phase {
                    Phase::Ceiling => "ceiling",
                    Phase::Rise => "rise",
                    Phase::Bisect => "bisect",
                    Phase::Confirm => "confirm",
                };
                let observed = probe.observed.iter().map(|(what, value)| format!("{what}: {value}"));
                vec![
                    phase.to_owned(),
                    number::rate(probe.load),
                    number::rate(probe.requests_per_second),
                    if probe.met { "held" } else { "broken" }.to_owned(),
                    observed.collect::<Vec<String>>().join(", "),
                ]
            });
            let table = Table {
                caption: format!("Probes of {}", row.name),
                columns: owned(&["Step", "Load", "Requests/s", "Conditions", "Observed"]),
                rows: rows.collect(),
                figures: false,
            };
            Block::Details { summary: format!("{} probes of {}", sla.probes.len(), row.name), table }
        })
        .collect()
}

/// Where every file is from and what machine it was measured on.
pub(super) fn sources(report: &Report, blocks: &mut Vec<Block>) {
    blocks.push(Block::Section("Sources and machines".to_owned()));
    blocks.push(Block::Table(Table {
        caption: "Result files".to_owned(),
        columns: owned(&["File", "Origin"]),
        rows: report.sources.iter().map(|source| vec![source.file.clone(), origin(source)]).collect(),
        figures: false,
    }));
    for source in &report.sources {
        let table = Table {
            caption: format!("Machine and notes of {}", source.file),
            columns: owned(&["What", "Value"]),
            rows: machine(source),
            figures: false,
        };
        if !table.rows.is_empty() {
            blocks.push(Block::Details { summary: table.caption.clone(), table });
        }
    }
}

fn origin(source: &Source) -> String {
    match &source.url {
        Some(url) => format!("{} ({url})", source.origin),
        None => source.origin.clone(),
    }
}

fn machine(source: &Source) -> Vec<Vec<String>> {
    let environment = &source.environment;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |what: String, value: Option<String>| rows.extend(value.map(|value| vec![what, value]));
    let rented = environment.machine.as_ref().map(|machine| {
        let size = machine.size.as_ref().map(|size| format!(" {size}")).unwrap_or_default();
        let vcpus = machine.vcpus.map(|vcpus| format!(", {vcpus} vCPUs")).unwrap_or_default();
        let region = machine.region.as_ref().map(|region| format!(", {region}")).unwrap_or_default();
        format!("{} {}{size}{vcpus}{region}", machine.provider, machine.family)
    });
    add("Machine".to_owned(), rented);
    add("CPU".to_owned(), environment.cpu_model.clone());
    add("Architecture".to_owned(), environment.architecture.clone());
    add("Cores".to_owned(), environment.cores.map(|cores| cores.to_string()));
    add("Logical CPUs".to_owned(), environment.logical_cpus.map(|cpus| cpus.to_string()));
    add("SMT".to_owned(), environment.smt.map(|smt| if smt { "on" } else { "off" }.to_owned()));
    add("Governor".to_owned(), environment.governor.clone());
    let memory =
        environment.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    add("Memory".to_owned(), memory);
    add("Operating system".to_owned(), environment.os.clone());
    add("Kernel".to_owned(), environment.kernel.clone());
    add("Hypervisor".to_owned(), environment.hypervisor.clone());
    add("Steal".to_owned(), environment.steal_percent.map(|steal| format!("{steal:.2} %")));
    for (what, texts) in [
        ("Version", &environment.versions),
        ("Command", &environment.command_lines),
        ("Limit", &environment.limits),
        ("Mitigation", &environment.mitigations),
    ] {
        for (name, text) in texts {
            add(format!("{what}: {name}"), Some(text.clone()));
        }
    }
    for pin in &environment.pinning {
        let cpus: Vec<String> = pin.cpus.iter().map(u32::to_string).collect();
        add(format!("Pinned: {}", pin.party), Some(format!("CPU {}", cpus.join(", "))));
    }
    for note in &source.notes {
        add("Note".to_owned(), Some(note.clone()));
    }
    rows
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
