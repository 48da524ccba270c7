//! House rules that no single crate can check: who may depend on whom, what state machines may not touch, whether the
//! registries agree with each other, and whether the documents name what there is.
//!
//! What it cannot see: a dependency that Cargo resolves in another way than the manifests say, and code that a macro
//! writes.

use riprap_core::F;
use riprap_core::phase::PHASE;
use riprap_core::system::DefectInfo;
use riprap_nemesis::{Place, parse as parse_faults};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of the workspace's crates each crate may use, in tests too. ARCHITECTURE.md draws the picture.
const MAY_USE: &[(&str, &[&str])] = &[
    ("riprap-broker", &["riprap-coord", "riprap-env", "riprap-protocol"]),
    ("riprap-checker", &["riprap-core"]),
    ("riprap-client", &["riprap-broker", "riprap-core", "riprap-env", "riprap-protocol", "riprap-sim"]),
    ("riprap-coord", &["riprap-env"]),
    ("riprap-core", &[]),
    ("riprap-env", &[]),
    ("riprap-live", &["riprap-core"]),
    ("riprap-nemesis", &["riprap-core"]),
    ("riprap-protocol", &[]),
    ("riprap-results", &["riprap-checker", "riprap-core"]),
    ("riprap-sim", &["riprap-core", "riprap-env"]),
    ("riprap-systems", &["riprap-broker", "riprap-client", "riprap-core", "riprap-env", "riprap-protocol"]),
    ("riprap-workloads", &["riprap-checker", "riprap-core"]),
];

/// The only crate that knows every other.
const TOP: &str = "riprap-cli";

/// Where the state machines are: the same seed must give the same bytes.
const STATE_MACHINES: &[&str] = &["systems/broker/src", "systems/coord/src"];

/// The part of them that is no state machine: it lends a node real sockets, files and time.
const SHELL: &str = "systems/broker/src/shell";

/// What would make a state machine differ from run to run, or wait.
const NOT_IN_STATE_MACHINES: &[&str] =
    &["HashMap", "HashSet", "Instant", "SystemTime", "async", "await", "thread", "tokio", "Mutex", "RwLock"];

/// Where nodes are async code over simulated time: the same seed must give the same bytes there too.
const ASYNC_NODES: &[&str] = &["systems/client/src", "harness/env/src/task"];

/// What async code may use of these: it waits, and its wakers are fit for threads.
const IN_ASYNC_NODES: &[&str] = &["async", "await", "thread", "Mutex"];

/// The documents for people; each is held to what there is.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("harness/cli is two folders deep")
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A manifest as far as the rules need it: the lines below each `[section]`.
fn sections(manifest: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(section) => {
                name = section;
                sections.entry(name).or_default();
            }
            None => sections.entry(name).or_default().push(line),
        }
    }
    sections
}

/// The names on the left of a section's lines: `rand` of `rand.workspace = true`.
fn keys<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    lines
        .iter()
        .map(|line| line.split(['.', '=', ' ']).next().expect("split gives one part at least"))
        .collect()
}

/// The folders of the workspace's members.
fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let list = manifest.split_once("\nmembers = [").expect("the workspace lists its members").1;
    let list = list.split_once(']').expect("the list ends").0;
    list.split(',')
        .map(|member| member.trim().trim_matches('"').to_owned())
        .filter(|m| !m.is_empty())
        .collect()
}

/// What a member uses, by the name of the crate: `riprap-core` and the like, and all others.
struct Crate {
    name: String,
    uses: BTreeSet<String>,
}

fn crates() -> Vec<Crate> {
    let one = |member: &String| {
        let manifest = read(&format!("{member}/Cargo.toml"));
        let sections = sections(&manifest);
        let name = sections["package"].iter().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap_or_else(|| panic!("{member} has a name")).trim_matches('"').to_owned();
        let mut uses = BTreeSet::new();
        for (section, lines) in &sections {
            if let Some((_, used)) = section.rsplit_once("dependencies.") {
                uses.insert(used.to_owned());
            } else if section.ends_with("dependencies") {
                uses.extend(keys(lines).into_iter().map(str::to_owned));
            }
        }
        Crate { name, uses }
    };
    members().iter().map(one).collect()
}

#[test]
fn manifests_are_read_as_cargo_reads_them() {
    let text = "[dependencies]\na.workspace = true\n# b = \"1\"\nc = { version = \"1\" }\n\n[lints]\nworkspace = true\n";
    let sections = sections(text);
    assert_eq!(keys(&sections["dependencies"]), ["a", "c"]);
    assert_eq!(sections["lints"], ["workspace = true"]);
    assert!(members().iter().any(|member| member == "harness/cli"));
}

#[test]
fn dependencies_point_one_way() {
    let crates = crates();
    let names: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
    let ruled: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).chain([TOP]).collect();
    assert_eq!(names, ruled, "every crate has a line in the table of who may use whom");
    for Crate { name, uses } in crates.iter().filter(|found| found.name != TOP) {
        let allowed = MAY_USE.iter().find(|(ruled, _)| ruled == name).expect("just compared").1;
        let ours = uses.iter().map(String::as_str).filter(|used| names.contains(used));
        let wrong: Vec<&str> = ours.filter(|used| !allowed.contains(used)).collect();
        assert!(wrong.is_empty(), "{name} uses {wrong:?}; it may use {allowed:?}");
    }
}

#[test]
fn every_crate_takes_the_workspaces_lints() {
    for member in members() {
        let manifest = read(&format!("{member}/Cargo.toml"));
        let lints = sections(&manifest).remove("lints").unwrap_or_default();
        assert_eq!(lints, ["workspace = true"], "{member}");
    }
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The words of a line of code, its comment left out.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split_once("//").map_or(line, |(code, _)| code);
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn state_machines_replay() {
    assert!(
        words("let a: HashMap<i32, Instant> = x; // async")
            .eq(["let", "a", "HashMap", "i32", "Instant", "x"])
    );
    let root = root();
    let shell = root.join(SHELL);
    let files: Vec<PathBuf> = STATE_MACHINES.iter().flat_map(|dir| rust_files(&root.join(dir))).collect();
    assert!(files.iter().any(|file| file.starts_with(&shell)), "{SHELL} is where it is said to be");
    let of_async: Vec<PathBuf> = ASYNC_NODES.iter().flat_map(|dir| rust_files(&root.join(dir))).collect();
    for file in files.iter().filter(|file| !file.starts_with(&shell)).chain(&of_async) {
        let text = fs::read_to_string(file).expect("source is UTF-8");
        let may_be = |word: &str| of_async.contains(file) && IN_ASYNC_NODES.contains(&word);
        for (line, number) in text.lines().zip(1..) {
            let wrong = words(line).find(|word| NOT_IN_STATE_MACHINES.contains(word) && !may_be(word));
            assert!(
                wrong.is_none(),
                "{}:{number}: {wrong:?} has no place in a state machine",
                file.display()
            );
        }
    }
}

fn defects() -> impl Iterator<Item = &'static DefectInfo> {
    riprap_systems::ALL.iter().flat_map(|system| system.info().defects.iter())
}

#[test]
fn what_is_to_be_found_can_be_found() {
    let wanted = |who: &str, anomalies: &[&str]| {
        for name in anomalies {
            assert!(riprap_checker::registry::anomaly(name).is_some(), "{who}: no check finds `{name}`");
        }
    };
    riprap_workloads::ALL.iter().for_each(|workload| wanted(workload.info().name, workload.info().finds));
    defects().for_each(|defect| wanted(defect.name, defect.anomalies));
}

/// What a defect's documentation says brings it out is a command that would be accepted.
#[test]
fn triggers_name_what_there_is() {
    for defect in defects() {
        let words: Vec<&str> = defect.trigger.split_whitespace().collect();
        let value = |flag: &str| words.iter().position(|word| *word == flag).map(|at| words[at + 1]);
        let nodes = value("--nodes").map_or(3, |nodes| nodes.parse().expect("a number of nodes"));
        if let Some(workload) = value("--workload") {
            assert!(riprap_workloads::find(workload).is_some(), "{}: workload {workload}", defect.name);
        }
        if let Some(faults) = value("--nemesis") {
            let faults: Vec<String> = faults.split(',').map(str::to_owned).collect();
            let place = Place {
                nodes,
                controllers: 0,
                storage: 0,
                copies: nodes,
                live: !words.contains(&"--sim"),
                disks: true,
                existing: false,
                upgrade: false,
                joins: true,
                spare: true,
                no_clocks: None,
            };
            let parsed = parse_faults(&faults, place).map(drop);
            assert_eq!(parsed, Ok(()), "{}", defect.name);
        }
    }
}

/// Who reads of a defect finds where it is planted, and the other way round.
#[test]
fn defects_are_marked_where_they_are_planted() {
    const MARK: &str = "// DEFECT ";
    let planted: BTreeSet<&str> = defects().map(|defect| defect.name).collect();
    let mut marked = BTreeSet::new();
    for file in rust_files(&root().join("systems/broker/src")) {
        let text = fs::read_to_string(file).expect("source is UTF-8");
        let marks = text.lines().filter_map(|line| line.trim_start().strip_prefix(MARK)?.split_once(':'));
        marked.extend(marks.map(|(name, _)| name.to_owned()));
    }
    assert!(marked.iter().map(String::as_str).eq(planted.iter().copied()), "{marked:?}, not {planted:?}");
}

/// A word of the nemesis says by itself which fault it belongs to, and is no client's.
#[test]
fn faults_have_words_of_their_own() {
    let infos: Vec<_> = riprap_nemesis::ALL.iter().map(|fault| fault.info()).collect();
    let mut taken: BTreeSet<&str> = F::KNOWN.iter().map(F::name).chain([PHASE]).collect();
    for word in infos.iter().flat_map(|info| [info.strike_f, info.heal_f]) {
        assert!(taken.insert(word), "`{word}` is taken");
    }
}

/// What `riprap ARGUMENTS` prints.
fn riprap(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_riprap")).args(arguments).output().expect("riprap starts");
    assert!(output.status.success(), "riprap {arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

fn subcommands() -> Vec<String> {
    let help = riprap(&["--help"]);
    let list = help.split_once("Commands:\n").expect("help lists the subcommands").1;
    let list = list.lines().take_while(|line| !line.trim().is_empty());
    // A line that goes on with the one before is indented further.
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn documents_name_every_subcommand() {
    let subcommands = subcommands();
    assert!(subcommands.contains(&"test".to_owned()), "{subcommands:?}");
    for document in ["README.md", "CONTRIBUTING.md"] {
        let text = read(document);
        for name in &subcommands {
            let named = text.match_indices(&format!("riprap {name}")).count() > 0;
            assert!(named, "{document} does not say `riprap {name}`");
        }
    }
}

#[test]
fn the_readme_names_what_the_registries_hold() {
    let readme = read("README.md");
    let systems = riprap_systems::ALL.iter().map(|system| system.info().name);
    let workloads = riprap_workloads::ALL.iter().map(|workload| workload.info().name);
    let faults = riprap_nemesis::ALL.iter().map(|fault| fault.info().name);
    let anomalies = riprap_checker::registry::anomalies().map(|anomaly| anomaly.name);
    let defects = defects().map(|defect| defect.name);
    for name in systems.chain(workloads).chain(faults).chain(anomalies).chain(defects) {
        assert!(readme.contains(&format!("`{name}`")), "README.md does not name `{name}`");
    }
}

/// A dependency earns its place by a line that says what for.
#[test]
fn every_dependency_has_its_line() {
    let architecture = read("ARCHITECTURE.md");
    let used: BTreeSet<String> = crates().into_iter().flat_map(|found| found.uses).collect();
    let manifest = read("Cargo.toml");
    let declared =
        keys(&sections(&manifest)["workspace.dependencies"]).into_iter().map(str::to_owned).collect();
    assert_eq!(used, &declared & &used, "every dependency is declared once, in the workspace's manifest");
    let foreign: Vec<&String> = declared.iter().filter(|name| !name.starts_with("riprap-")).collect();
    for name in foreign {
        assert!(used.contains(name), "nobody uses {name}");
        let has_line = architecture.lines().any(|line| line.starts_with(&format!("| `{name}` |")));
        assert!(has_line, "ARCHITECTURE.md has no line for `{name}`");
    }
}

/// The text of a document outside of its fenced blocks: those show what a reader is to write.
fn prose(text: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// The paths that a document names: those in backquotes that begin at the root's folders, and where links lead.
fn paths(prose: &str) -> Vec<String> {
    const TOPS: &[&str] =
        &["harness/", "checker/", "nemesis/", "workloads/", "systems/", "results/", "docs/", ".ci/"];
    /// Made by runs.
    const RUNS: &str = "results/runs";
    let quoted = prose.split('`').skip(1).step_by(2);
    let quoted =
        quoted.filter(|path| TOPS.iter().any(|top| path.starts_with(top)) && !path.starts_with(RUNS));
    let is_path = |path: &&str| !path.contains([' ', '*', '<', '{', '\n']);
    let linked = prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let linked = linked.filter(|target| !target.is_empty() && !target.contains("://"));
    quoted.filter(is_path).chain(linked).map(str::to_owned).collect()
}

#[test]
fn documents_name_paths_that_are_there() {
    assert_eq!(
        paths("see `results/fonts` and [a](docs/b.png), `results/runs/x`"),
        ["results/fonts", "docs/b.png"]
    );
    for document in DOCUMENTS {
        for path in paths(&prose(&read(document))) {
            assert!(root().join(&path).exists(), "{document} names {path}, which is not there");
        }
    }
}
