//! Kafka's jars, and the Java that runs them.
//!
//! Maven fetches a version once, into the cache (`RIPRAP_CACHE`, by default `~/.cache/riprap`), and checks each file against
//! the checksum that is published with it. The pom of a version and the class path that it comes to lie side by side:
//!
//! ```text
//! CACHE/kafka/repository     Maven's own, shared by all versions
//! CACHE/kafka/4.3.1/pom.xml  what is asked for
//! CACHE/kafka/4.3.1/jars     the class path, written last: while it is not there, the version is not
//! ```

use crate::cache;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const POM: &str = include_str!("../../kafka/pom.xml");
/// How long Maven waits for a connection, and for the next bytes of an answer: half an hour and more by itself. Units:
/// milliseconds. Source: Maven's resolver, "Configuration Options"; up to Maven 3.8 it is Wagon that fetches, which heeds the
/// last alone.
const PATIENCE: [&str; 3] = [
    "-Daether.connector.connectTimeout=10000",
    "-Daether.connector.requestTimeout=30000",
    "-Dmaven.wagon.rto=30000",
];
/// The oldest Java that Kafka's servers run on since version 4. Source: KIP-1013.
const MIN_JAVA: u32 = 17;

pub(super) fn folder(version: &str) -> Result<PathBuf, String> {
    Ok(cache::folder("kafka")?.join(version))
}

/// The class path of a version that is there. Errors: one line.
pub(super) fn class_path(version: &str) -> Result<String, String> {
    let path = folder(version)?.join("jars");
    let listed = std::fs::read_to_string(&path)
        .map_err(|e| format!("Kafka {version} has not been fetched: {}: {e}", path.display()))?;
    Ok(listed.trim().to_owned())
}

/// Whether a version is there, with all its files.
fn is_there(version: &str) -> bool {
    class_path(version)
        .is_ok_and(|listed| !listed.is_empty() && listed.split(':').all(|jar| Path::new(jar).is_file()))
}

/// Has a version there. `tell` is told how far it is. Errors: one line.
pub(super) fn fetch(version: &str, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    if is_there(version) {
        return Ok(());
    }
    let folder = folder(version)?;
    let in_words = |what: &Path| {
        let what = what.display().to_string();
        move |e: std::io::Error| format!("failed to write {what}: {e}")
    };
    std::fs::create_dir_all(&folder).map_err(in_words(&folder))?;
    let pom = folder.join("pom.xml");
    std::fs::write(&pom, POM.replace("KAFKA_VERSION", version)).map_err(in_words(&pom))?;
    let (jars, unfinished) = (folder.join("jars"), folder.join("jars.unfinished"));
    tell(&format!("fetching Kafka {version} with Maven"));
    let mut maven = Command::new("mvn")
        .args(["--batch-mode", "--strict-checksums"])
        .args(PATIENCE)
        .arg("--file")
        .arg(&pom)
        .arg(format!("-Dmaven.repo.local={}", folder.with_file_name("repository").display()))
        .arg(format!("-Dmdep.outputFile={}", unfinished.display()))
        .arg("dependency:build-classpath")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("failed to start mvn, which fetches Kafka: {e}; Maven 3 or newer is needed"))?;
    let told = maven.stdout.take().expect("it is piped");
    let (mut fetched, mut wrong) = (0, Vec::new());
    for line in BufReader::new(told).lines().map_while(Result::ok) {
        if line.contains("Downloaded from") {
            fetched += 1;
            tell(&format!("fetching Kafka {version} with Maven: {fetched} files"));
        } else if let Some(said) = line.strip_prefix("[ERROR] ") {
            wrong.push(said.to_owned());
        }
    }
    let status = maven.wait().map_err(|e| format!("failed to wait for mvn: {e}"))?;
    if !status.success() {
        let why = wrong.first().map_or_else(|| status.to_string(), Clone::clone);
        return Err(format!("failed to fetch Kafka {version}: {why}"));
    }
    std::fs::rename(&unfinished, &jars).map_err(in_words(&jars))?;
    if is_there(version) {
        Ok(())
    } else {
        Err(format!("Kafka {version} is not whole: see {}", jars.display()))
    }
}

/// The Java to run Kafka with: of `JAVA_HOME` if that is set, else the first on the path. Errors: none is new enough.
pub(super) fn java() -> Result<PathBuf, String> {
    // A node that is started again and again need not wait for a virtual machine that only tells its version.
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find_java).clone()
}

fn find_java() -> Result<PathBuf, String> {
    let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = match home {
        Some(home) => vec![Path::new(&home).join("bin/java")],
        None => std::env::split_paths(&path).map(|folder| folder.join("java")).collect(),
    };
    let java = candidates.into_iter().find(|java| java.is_file());
    let java =
        java.ok_or_else(|| format!("there is no java; Java {MIN_JAVA} or newer is needed to run Kafka"))?;
    let mut told = String::new();
    let mut asked = Command::new(&java)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("failed to start {}: {e}", java.display()))?;
    let read = asked.stderr.take().expect("it is piped").read_to_string(&mut told);
    let ended = asked.wait();
    if let Some(e) = read.err().or(ended.err()) {
        return Err(format!("failed to ask {} for its version: {e}", java.display()));
    }
    match major_version(&told) {
        Some(version) if version >= MIN_JAVA => Ok(java),
        Some(version) => {
            Err(format!("{} is Java {version}; {MIN_JAVA} or newer is needed to run Kafka", java.display()))
        }
        None => {
            Err(format!("{} does not tell its version; Java {MIN_JAVA} or newer is needed", java.display()))
        }
    }
}

/// The version in what `java -version` says: `17` of `openjdk version "17.0.15" 2025-04-15`, `8` of `"1.8.0_402"`.
fn major_version(told: &str) -> Option<u32> {
    let mut parts = told.split('"').nth(1)?.split(['.', '_', '-', '+']);
    match parts.next()?.parse().ok()? {
        1 => parts.next()?.parse().ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java() {
        let check = |told: &str, expect: Option<u32>| assert_eq!(major_version(told), expect, "{told}");
        check("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment", Some(17));
        check("java version \"1.8.0_402\"", Some(8));
        check("openjdk version \"21\" 2023-09-19", Some(21));
        check("openjdk version \"25-ea\" 2025-09-16", Some(25));
        check("command not found", None);
    }

    #[test]
    fn the_pom_names_one_version() {
        assert_eq!(POM.matches("KAFKA_VERSION").count(), 1);
    }
}
