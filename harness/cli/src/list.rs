//! `riprap list`: what the registries hold.

use crate::args::{ListArgs, Listed};
use crate::{Failure, print};
use riprap_checker::registry::{self, AnomalyInfo};
use riprap_core::fault::Shape;
use riprap_results::json_text;
use serde_json::{Value as Json, json};

/// One thing of a registry.
struct Entry {
    name: String,
    doc: String,
    /// More about it, each with a heading.
    details: Vec<(&'static str, Json)>,
}

pub(crate) fn run(args: &ListArgs) -> Result<u8, Failure> {
    let entries = match args.what {
        Listed::Systems => systems(),
        Listed::Workloads => workloads(),
        Listed::Faults => faults(),
        Listed::Checkers => checkers(),
        Listed::Defects => defects(),
    };
    if args.json {
        let all: Vec<Json> = entries.iter().map(Entry::json).collect();
        print(&json_text(&all))?;
    } else {
        print(&entries.iter().map(Entry::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

impl Entry {
    fn json(&self) -> Json {
        let mut fields = serde_json::Map::new();
        fields.insert("name".to_owned(), json!(self.name));
        fields.insert("doc".to_owned(), json!(self.doc));
        fields.extend(self.details.iter().map(|(heading, value)| ((*heading).to_owned(), value.clone())));
        Json::Object(fields)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n{}", self.name, indented(&self.doc, 4));
        for (heading, value) in &self.details {
            match value {
                Json::Object(parts) => {
                    text.push_str(&format!("    {heading}:\n"));
                    for (name, doc) in parts {
                        text.push_str(&format!(
                            "      {name}\n{}",
                            indented(doc.as_str().unwrap_or_default(), 8)
                        ));
                    }
                }
                Json::Array(parts) => {
                    let words: Vec<&str> = parts.iter().filter_map(Json::as_str).collect();
                    text.push_str(&indented(&format!("{heading}: {}", words.join(", ")), 4));
                }
                Json::String(word) => text.push_str(&indented(&format!("{heading}: {word}"), 4)),
                other => text.push_str(&indented(&format!("{heading}: {other}"), 4)),
            }
        }
        text
    }
}

/// Words in lines that fit a terminal, each indented.
fn indented(text: &str, by: usize) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("begun with one");
        if !line.is_empty() && by + line.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
}

fn systems() -> Vec<Entry> {
    let entry = |system: &&dyn riprap_systems::Registered| Entry {
        name: system.info().name.to_owned(),
        doc: system.info().doc.to_owned(),
        details: vec![
            (
                "versions",
                json!(system.info().versions.unwrap_or(if system.existing().is_some() {
                    "what is there"
                } else {
                    "that of this program"
                })),
            ),
            ("simulated", json!(system.simulated().is_some())),
            ("defects", system.info().defects.iter().map(|defect| defect.name).collect()),
        ],
    };
    riprap_systems::ALL.iter().map(entry).collect()
}

fn workloads() -> Vec<Entry> {
    let entry = |info: &riprap_workloads::WorkloadInfo| Entry {
        name: info.name.to_owned(),
        doc: info.doc.to_owned(),
        details: vec![("finds", info.finds.iter().copied().collect())],
    };
    riprap_workloads::ALL.iter().map(|workload| entry(workload.info())).collect()
}

fn faults() -> Vec<Entry> {
    let entry = |fault: &&dyn riprap_core::fault::Fault| {
        let info = fault.info();
        let shape = |shape: &Shape| (format!("{}:{}", info.name, shape.name), json!(shape.doc));
        let of_role = |shape: &Shape| (format!("{}:ROLE:{}", info.name, shape.name), json!(shape.doc));
        let shapes = info.shapes.iter().map(shape).chain(fault.shapes_of_roles().iter().map(of_role));
        Entry {
            name: info.name.to_owned(),
            doc: info.doc.to_owned(),
            details: vec![("simulated", json!(fault.strikes_simulated())), ("shapes", shapes.collect())],
        }
    };
    riprap_nemesis::ALL.iter().map(entry).collect()
}

fn checkers() -> Vec<Entry> {
    fn entry<'a>(name: &str, doc: &str, anomalies: impl Iterator<Item = &'a AnomalyInfo>) -> Entry {
        let meanings = anomalies.map(|anomaly| (anomaly.name.to_owned(), json!(anomaly.meaning)));
        Entry { name: name.to_owned(), doc: doc.to_owned(), details: vec![("anomalies", meanings.collect())] }
    }
    let of_history = registry::ALL.iter();
    let mut entries: Vec<Entry> =
        of_history.map(|checker| entry(checker.name, checker.doc, checker.anomalies.iter())).collect();
    let doc = "no process of the system ends by itself; seen by whoever runs the nodes, and so not by `riprap check`";
    entries.push(entry("nodes", doc, registry::OF_NODES.iter().copied()));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn defects() -> Vec<Entry> {
    let of = |system: &riprap_core::system::SystemInfo| {
        let name = system.name;
        let entry = move |defect: &riprap_core::system::DefectInfo| Entry {
            name: defect.name.to_owned(),
            doc: defect.mechanism.to_owned(),
            details: vec![
                ("system", json!(name)),
                ("source", json!(defect.source)),
                ("trigger", json!(format!("riprap test --defect {} {}", defect.name, defect.trigger).trim())),
                ("anomalies", defect.anomalies.iter().copied().collect()),
            ],
        };
        system.defects.iter().map(entry).collect::<Vec<_>>()
    };
    riprap_systems::ALL.iter().flat_map(|system| of(system.info())).collect()
}
