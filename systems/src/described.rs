//! Systems that a user describes in a file, without a line of Rust: `--system ./mine.toml`.
//!
//! ```toml
//! name = "mine"
//! kind = "kafka"
//! port = 9092
//! start = ["mine", "--id={id}", "--listen={address}:{port}", "--peers={peers}", "--dir={data}", "{settings}"]
//! peer = "{id}@{address}:{port}"
//! setting = "--set={name}={value}"
//! ```
//!
//! `systems/examples/broker.toml` has every key with what it is for. What is wrong is told with the file, the line and the
//! key. Nothing is known of such a system but what its file says: no error is definite that the client library or the file
//! does not call so, and no defect can be planted.

mod template;

use crate::librdkafka::{self, KafkaLog};
use crate::nats::log::NatsLog;
use crate::{Registered, nats, prepare, probe};
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::NodeId;
use riprap_core::plan::TestConfig;
use riprap_core::system::{Deployment, ErrorRule, NodeCommand, NodePlace, System, SystemInfo};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use template::fill;

/// A file larger than this describes no system.
const MAX_BYTES: u64 = 1 << 20;
/// What a node's programs get of the environment of riprap, beside what the file says.
const INHERITED: &[&str] = &["HOME", "LANG", "PATH"];

/// What clients and probes speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Kafka's protocol.
    Kafka,
    /// NATS, with JetStream.
    Nats,
}

/// When a node serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ready {
    /// Of Kafka's kind: it tells of all nodes, and of a leader of every partition.
    Metadata,
    /// Of Kafka's kind: it answers at all.
    Answer,
    /// Of NATS' kind: it says so to who asks `/healthz` at `health_port`.
    Health,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    #[serde(default)]
    doc: String,
    kind: Kind,
    port: u16,
    start: Vec<String>,
    #[serde(default)]
    prepare: Vec<String>,
    #[serde(default)]
    peer: Option<String>,
    #[serde(default = "comma")]
    peer_separator: String,
    #[serde(default)]
    setting: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    ready: Option<Ready>,
    #[serde(default)]
    health_port: Option<u16>,
    #[serde(default)]
    broken: Vec<String>,
    #[serde(default)]
    definite_errors: BTreeMap<String, String>,
}

fn comma() -> String {
    ",".to_owned()
}

/// What a node is asked, to know whether it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    Metadata,
    Answer,
    Health { port: u16 },
}

impl Description {
    /// Errors: as of [`Described::read`].
    fn probe(&self) -> Result<Probe, String> {
        if self.health_port.is_some() != (self.kind == Kind::Nats) {
            return Err(
                ": health_port: it is right for kind \"nats\", which needs it, and for no other".to_owned()
            );
        }
        match (self.health_port, self.ready) {
            (Some(port), None | Some(Ready::Health)) => Ok(Probe::Health { port }),
            (None, None | Some(Ready::Metadata)) => Ok(Probe::Metadata),
            (None, Some(Ready::Answer)) => Ok(Probe::Answer),
            (Some(_), Some(_)) => Err(": ready: \"health\" is right for kind \"nats\"".to_owned()),
            (None, Some(Ready::Health)) => {
                Err(": ready: \"metadata\" and \"answer\" are right for kind \"kafka\"".to_owned())
            }
        }
    }
}

/// See the module.
struct Described {
    info: &'static SystemInfo,
    /// The file as it was read.
    text: String,
    /// Its folder: where programs are looked for that are named by a relative path.
    folder: PathBuf,
    description: Description,
}

/// The system that a file describes. It lives as long as the program, as those do that are built in.
///
/// Errors: `FILE:LINE: what is wrong`.
pub fn load(path: &Path) -> Result<&'static dyn Registered, String> {
    let failed = |what: &dyn std::fmt::Display| format!("failed to read {}: {what}", path.display());
    let size_bytes = std::fs::metadata(path).map_err(|e| failed(&e))?.len();
    if size_bytes > MAX_BYTES {
        return Err(failed(&format_args!("{size_bytes} bytes are too many to describe a system")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let described = Described::read(text, folder).map_err(|why| format!("{}{why}", path.display()))?;
    // Asked for once in a run, by a program that does one run.
    Ok(Box::leak(Box::new(described)))
}

impl Described {
    /// Errors: what is wrong, after the file's name: `:LINE: ...` or `: KEY: ...`.
    fn read(text: String, folder: PathBuf) -> Result<Described, String> {
        let description: Description = toml::from_str(&text).map_err(|e| {
            let line = e.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            let what: Vec<&str> = e.message().lines().collect();
            format!("{line}: {}", what.join(" "))
        })?;
        let name = &description.name;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(": name: `{name}`; lower-case letters, digits and `-` are right"));
        }
        if crate::find(name).is_some() {
            return Err(format!(": name: `{name}` is a system of riprap's own; another is right"));
        }
        if description.start.is_empty() {
            return Err(": start: nothing; the program and its arguments are right".to_owned());
        }
        let above = |path: &&String| {
            Path::new(path.as_str()).components().any(|part| !matches!(part, Component::Normal(_)))
        };
        if let Some(path) = description.files.keys().find(above) {
            return Err(format!(": files: `{path}`; a path below the node's data folder is right"));
        }
        description.probe()?;
        let known = match description.kind {
            Kind::Kafka => librdkafka::ERRORS,
            Kind::Nats => nats::errors::ERRORS,
        };
        let mut errors: Vec<ErrorRule> = known
            .iter()
            .filter(|rule| !description.definite_errors.contains_key(rule.code))
            .map(|rule| ErrorRule { ..*rule })
            .collect();
        for (code, reason) in &description.definite_errors {
            if description.kind == Kind::Nats {
                return Err(
                    ": definite_errors: riprap's client of kind \"nats\" knows them itself; leave it out"
                        .to_owned(),
                );
            }
            if reason.trim().is_empty() {
                return Err(format!(
                    ": definite_errors: {code}: why it proves that nothing happened is right, with a source"
                ));
            }
            errors.push(ErrorRule { code: leak(code), definite: true, reason: leak(reason) });
        }
        errors.sort_by_key(|rule| rule.code);
        let doc = match description.doc.as_str() {
            "" => "Described by its user.",
            doc => doc,
        };
        let info = SystemInfo {
            name: leak(name),
            doc: leak(doc),
            defects: Vec::new(),
            errors: Box::leak(errors.into_boxed_slice()),
            versions: Some("as its file makes of `{version}`"),
            controllers: false,
            storage: 0,
        };
        let info = Box::leak(Box::new(info));
        let described = Described { info, text, folder, description };
        // Every place is filled in once before anything is started: with what does not matter.
        described.render(&a_deployment(), NodeId(1)).map_err(|why| format!(": {why}"))?;
        Ok(described)
    }

    /// What starts a node, and what is there before it does.
    fn render(&self, deployment: &Deployment, node: NodeId) -> Result<Rendered, String> {
        let description = &self.description;
        let of = |field: &str, why: String| format!("{field}: {why}");
        let peer = |place: &NodePlace| {
            let own = Own::of(place, description.port);
            let Some(peer) = &description.peer else { return Ok(own.address.clone()) };
            fill(peer, &own.places()).map_err(|why| of("peer", why))
        };
        let peers: Vec<String> = deployment.nodes.iter().map(peer).collect::<Result<_, String>>()?;
        let others: Vec<String> = deployment
            .nodes
            .iter()
            .zip(&peers)
            .filter(|(place, _)| place.id != node)
            .map(|(_, peer)| peer.clone())
            .collect();
        let settings: Vec<String> = deployment
            .settings
            .iter()
            .map(|(name, value)| {
                let setting = description.setting.as_deref().unwrap_or_default();
                fill(setting, &[("name", name), ("value", value)]).map_err(|why| of("setting", why))
            })
            .collect::<Result<_, String>>()?;

        let place = deployment.place(node);
        let own = Own::of(place, description.port);
        let separator = &description.peer_separator;
        let (peers, others) = (peers.join(separator), others.join(separator));
        let data = place.data_dir.display().to_string();
        let logs = place.log_dir.display().to_string();
        let (seed, nodes) = (deployment.seed.to_string(), deployment.nodes.len().to_string());
        let mut places = own.places().to_vec();
        places.extend([
            ("data", data.as_str()),
            ("logs", &logs),
            ("nodes", &nodes),
            ("others", &others),
            ("peers", &peers),
            ("seed", &seed),
            ("version", deployment.version.as_deref().unwrap_or_default()),
        ]);
        let words = |field: &str, words: &[String]| {
            let mut filled = Vec::new();
            for word in words {
                if word == "{settings}" {
                    filled.extend(settings.iter().cloned());
                } else {
                    filled.push(fill(word, &places).map_err(|why| of(field, why))?);
                }
            }
            Ok::<_, String>(filled)
        };
        let mut start = words("start", &description.start)?;
        let program = match &deployment.program {
            Some(program) => program.clone(),
            None => self.program(&start[0]),
        };
        let mut prepare = words("prepare", &description.prepare)?.into_iter();
        let prepare = prepare.next().map(|program| (self.program(&program), prepare.collect()));
        let mut env: BTreeMap<String, String> = INHERITED
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect();
        for (name, value) in &description.env {
            env.insert(name.clone(), fill(value, &places).map_err(|why| of("env", why))?);
        }
        let lines = settings.join("\n");
        let mut in_files = places.clone();
        in_files.push(("settings", &lines));
        let files = description
            .files
            .iter()
            .map(|(path, text)| {
                let text = fill(text, &in_files).map_err(|why| of("files", format!("{path}: {why}")))?;
                Ok((place.data_dir.join(path), text))
            })
            .collect::<Result<_, String>>()?;
        Ok(Rendered { program, args: start.split_off(1), env, files, prepare })
    }

    /// A program by its name on the path, or by a path from the file's folder.
    fn program(&self, named: &str) -> PathBuf {
        if named.contains('/') { self.folder.join(named) } else { named.into() }
    }
}

struct Rendered {
    program: PathBuf,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    files: Vec<(PathBuf, String)>,
    /// A program with its arguments.
    prepare: Option<(PathBuf, Vec<String>)>,
}

/// What names one node.
struct Own {
    id: String,
    name: String,
    address: String,
    port: String,
}

impl Own {
    fn of(place: &NodePlace, port: u16) -> Own {
        Own {
            id: place.id.0.to_string(),
            name: place.id.to_string(),
            address: place.address.to_string(),
            port: port.to_string(),
        }
    }

    fn places(&self) -> [template::Place<'_>; 4] {
        [("id", &self.id), ("name", &self.name), ("address", &self.address), ("port", &self.port)]
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// A deployment that is none, with something at every place.
fn a_deployment() -> Deployment {
    let place = |n: u16| NodePlace {
        id: NodeId(n),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        data_dir: PathBuf::new(),
        log_dir: PathBuf::new(),
    };
    Deployment {
        nodes: vec![place(1), place(2)],
        controllers: 0,
        storage: 0,
        spare: None,
        version: None,
        defect: None,
        settings: [("a".to_owned(), "b".to_owned())].into(),
        seed: 0,
        program: None,
    }
}

/// Whether there is a program to run there, or of that name on the path.
fn is_there(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if program.components().count() > 1 {
        return program.is_file();
    }
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl System for Described {
    fn info(&self) -> &'static SystemInfo {
        self.info
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        let name = self.info.name;
        if deployment.defect.is_some() {
            return Err(format!("--defect: system `{name}` has no planted defects; leave it out"));
        }
        if !deployment.settings.is_empty() && self.description.setting.is_none() {
            return Err(format!(
                "--set: the file of system `{name}` does not say how it is given settings; `setting = \"...\"` there is right"
            ));
        }
        let rendered =
            self.render(&Deployment { nodes: a_deployment().nodes, ..deployment.clone() }, NodeId(1))?;
        let prepare = rendered.prepare.map(|(program, _)| program);
        match [rendered.program].into_iter().chain(prepare).find(|program| !is_there(program)) {
            Some(program) => Err(format!(
                "system `{name}`: there is no program {}; the path of one is right, from the file's folder on, or its name on \
                 the PATH",
                program.display()
            )),
            None => Ok(()),
        }
    }

    fn prepare(&self, deployment: &Deployment, nodes: &[NodeId]) -> Result<(), String> {
        let mut commands = Vec::new();
        for node in nodes {
            let rendered = self.render(deployment, *node)?;
            for (path, text) in rendered.files {
                let folder = path.parent().expect("it is below the data folder");
                let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
                written.map_err(|e| format!("failed to write {}: {e}", path.display()))?;
            }
            if let Some((program, args)) = rendered.prepare {
                let mut command = Command::new(program);
                command.args(args).env_clear().envs(rendered.env);
                commands.push((*node, command));
            }
        }
        prepare::run_all("prepare", commands)
    }

    fn validate_run(&self, run: &TestConfig) -> Result<(), String> {
        match self.description.kind {
            Kind::Kafka => Ok(()),
            Kind::Nats => nats::check_run(self.info.name, run),
        }
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        match self.description.kind {
            Kind::Kafka => librdkafka::validate(properties),
            Kind::Nats => nats::log::Options::read(properties).map(drop),
        }
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        let rendered = self.render(deployment, node).expect("it was rendered before");
        NodeCommand {
            program: rendered.program,
            args: rendered.args,
            env: rendered.env.into_iter().collect(),
        }
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{}", deployment.place(node).address, self.description.port)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        let port = self.description.port;
        match self.description.probe().expect("it was checked") {
            Probe::Metadata => probe::serves(deployment, node, port),
            Probe::Answer => probe::answers(deployment, node, port),
            Probe::Health { port } => {
                let asked = nats::health::ask((deployment.place(node).address, port).into());
                asked.map_err(|why| format!("{node} is not ready: {why}"))
            }
        }
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(match self.description.kind {
            Kind::Kafka => Box::new(KafkaLog::new(config.clone(), self.info.errors)),
            Kind::Nats => Box::new(NatsLog::new(config.clone())?),
        })
    }

    fn broken(&self) -> &[String] {
        &self.description.broken
    }

    fn description(&self) -> Option<&str> {
        Some(&self.text)
    }

    fn versions(&self, deployment: &Deployment) -> Json {
        let version = deployment.version.as_deref().unwrap_or("not told");
        match self.description.kind {
            Kind::Kafka => {
                json!({self.info.name: version, "librdkafka": rdkafka::util::get_rdkafka_version().1})
            }
            Kind::Nats => json!({self.info.name: version, "async-nats": nats::log::ASYNC_NATS_VERSION}),
        }
    }
}

impl Registered for Described {}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "name = \"mine\"\nkind = \"kafka\"\nport = 9092\nstart = [\"/bin/true\"]\n";

    fn read(text: &str) -> Result<Described, String> {
        Described::read(text.to_owned(), "/etc".into())
    }

    /// Three nodes.
    fn deployment(settings: &[(&str, &str)]) -> Deployment {
        let sample = crate::sample::deployment(3, 0, settings);
        Deployment { version: Some("1.2".to_owned()), seed: 7, ..sample }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let check = |text: &str, expect: &str| {
            let why = read(text).err().unwrap_or_else(|| panic!("{text} is right"));
            assert!(why.contains(expect), "{why} is not {expect}");
        };
        check("name = ", ":1: ");
        check("name = \"mine\"\nport = 1\n", "missing field `kind`");
        check(&format!("{MINIMAL}\nprot = 1\n"), ":6: unknown field `prot`, expected one of `name`");
        check(&MINIMAL.replace("kafka", "mqtt"), ":2: unknown variant `mqtt`, expected `kafka` or `nats`");
        check(&MINIMAL.replace("kafka", "nats"), ": health_port: it is right for kind \"nats\"");
        check(&format!("{MINIMAL}health_port = 1"), ": health_port: it is right for kind \"nats\"");
        check(&format!("{MINIMAL}ready = \"health\""), ": ready: \"metadata\" and \"answer\" are right");
        let nats = format!("{}health_port = 8222\n", MINIMAL.replace("kafka", "nats"));
        check(&format!("{nats}ready = \"answer\""), ": ready: \"health\" is right for kind \"nats\"");
        check(&format!("{nats}[definite_errors]\nX = \"y\""), ": definite_errors: riprap's client of kind");
        check(&MINIMAL.replace("9092", "99999"), ":3: invalid value");
        check(&MINIMAL.replace("mine", "kafka"), ": name: `kafka` is a system of riprap's own");
        check(&MINIMAL.replace("mine", "My Own"), ": name: `My Own`; lower-case letters");
        check(&MINIMAL.replace("\"/bin/true\"", ""), ": start: nothing; the program");
        check(&MINIMAL.replace("/bin/true", "{bin}"), ": start: `{bin}` is no place; one of: {id}, {name},");
        check(&format!("{MINIMAL}peer = \"{{data}}\""), ": peer: `{data}` is no place; one of: {id},");
        check(
            &format!("{MINIMAL}setting = \"{{x}}\""),
            ": setting: `{x}` is no place; one of: {name}, {value}",
        );
        check(&format!("{MINIMAL}[env]\nA = \"{{\""), ": env: `{` stands alone");
        check(&format!("{MINIMAL}[files]\n\"../a\" = \"\""), ": files: `../a`; a path below");
        check(&format!("{MINIMAL}[files]\na = \"{{b}}\""), ": files: a: `{b}` is no place");
        check(&format!("{MINIMAL}[definite_errors]\nX = \" \""), ": definite_errors: X: why it proves");
    }

    #[test]
    fn a_node_is_started_with_all_places_filled_in() {
        let text = MINIMAL.replace(
            "[\"/bin/true\"]",
            r#"["bin/mine", "{settings}", "{id} {name} {address} {port} {data} {logs} {nodes} {peers} {others} {seed} {version}"]
peer = "{id}@{address}"
peer_separator = ";"
setting = "--{name}={value}"
prepare = ["format", "{data}"]
[env]
LEVEL = "{{{id}}}"
[files]
"conf/a.properties" = "id={id}\n{settings}\n""#,
        );
        let described = read(&text).unwrap_or_else(|why| panic!("{why}"));
        let rendered = described
            .render(&deployment(&[("a.b", "1"), ("c", "x y")]), NodeId(2))
            .unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(rendered.program, Path::new("/etc/bin/mine"));
        assert_eq!(
            rendered.args,
            [
                "--a.b=1",
                "--c=x y",
                "2 n2 10.0.0.2 9092 /run/n2/data /run/n2 3 1@10.0.0.1;2@10.0.0.2;3@10.0.0.3 1@10.0.0.1;3@10.0.0.3 7 1.2",
            ]
        );
        assert_eq!(rendered.prepare, Some(("format".into(), vec!["/run/n2/data".to_owned()])));
        assert_eq!(rendered.env.get("LEVEL").map(String::as_str), Some("{2}"));
        let file = (PathBuf::from("/run/n2/data/conf/a.properties"), "id=2\n--a.b=1\n--c=x y\n".to_owned());
        assert_eq!(rendered.files, [file]);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let check = |text: &str, deployment: Deployment, expect: Option<&str>| {
            let described = read(text).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(described.validate(&deployment).err().as_deref(), expect);
        };
        check(MINIMAL, deployment(&[]), None);
        check(
            MINIMAL,
            deployment(&[("a", "b")]),
            Some(
                "--set: the file of system `mine` does not say how it is given settings; `setting = \"...\"` there is right",
            ),
        );
        let missing = "system `mine`: there is no program /etc/no/such; the path of one is right, from the file's folder on, or \
                       its name on the PATH";
        check(&MINIMAL.replace("/bin/true", "no/such"), deployment(&[]), Some(missing));
        check(&MINIMAL.replace("/bin/true", "sh"), deployment(&[]), None);
        let another = Deployment { program: Some("/etc/no/such".into()), ..deployment(&[]) };
        check(MINIMAL, another, Some(missing));
        let defect = Deployment { defect: Some("zero-offset".to_owned()), ..deployment(&[]) };
        check(MINIMAL, defect, Some("--defect: system `mine` has no planted defects; leave it out"));
    }

    #[test]
    fn errors_may_be_definite() {
        let text =
            format!("{MINIMAL}[definite_errors]\nQUOTA = \"refused before the log: its manual, 3.2\"\n");
        let described = read(&text).unwrap_or_else(|why| panic!("{why}"));
        let errors = described.info.errors;
        assert_eq!(errors.len(), librdkafka::ERRORS.len() + 1);
        assert!(errors.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert!(errors.iter().any(|rule| rule.code == "QUOTA" && rule.definite));
    }

    #[test]
    fn a_system_may_be_of_nats_kind() {
        let text = format!("{}health_port = 8222\n", MINIMAL.replace("kafka", "nats"));
        let described = read(&text).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(described.description.probe(), Ok(Probe::Health { port: 8222 }));
        assert_eq!(described.info.errors.len(), nats::errors::ERRORS.len());
    }

    #[test]
    fn the_example_is_right() {
        let example = include_str!("../examples/broker.toml");
        let described = read(example).unwrap_or_else(|why| panic!("broker.toml{why}"));
        // Nothing that can be said is left out of it.
        let fields = read("x = 1").err().expect("it is no field");
        for field in fields.split("expected one of ").nth(1).expect("they are listed").split(", ") {
            let field = field.trim_matches('`');
            let is_there = example.lines().any(|line| {
                let line = line.trim_start_matches(['#', ' ', '[']);
                line.strip_prefix(field).is_some_and(|rest| rest.starts_with([' ', ']']))
            });
            assert!(is_there, "the example does not tell of `{field}`");
        }
        assert_eq!(described.info.name, "my-broker");
    }
}
