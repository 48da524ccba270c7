//! What hosts are brought before a run, and how their agents begin.

use super::cluster::{Host, HostsSpec};
use super::protocol::{Ask, Begin, Begun};
use super::remote::Remote;
use super::ssh::Connection;
use super::upload::{self, Wanted, quoted};
use riprap_core::cluster::ClusterError;
use riprap_core::system::Deployment;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

/// What all hosts are to have.
pub(super) struct WantedOfAll {
    pub(super) agent: Wanted,
    /// What is run as the system, where that is not what it would be.
    pub(super) program: Option<Wanted>,
    /// The same of the version that nodes go to.
    pub(super) other_program: Option<Wanted>,
    /// What the system is made of, in all versions.
    pub(super) system: Vec<Wanted>,
}

pub(super) fn wanted(spec: &HostsSpec<'_>) -> Result<WantedOfAll, ClusterError> {
    let other = spec.upgraded.as_ref().map(|(_, other)| other);
    let program = |of: Option<&Deployment>| {
        let program = of.and_then(|of| of.program.as_deref());
        program.map(|program| Wanted::program(program, "program")).transpose()
    };
    let mut system = Vec::new();
    for deployment in [Some(&spec.deployment), other].into_iter().flatten() {
        let installed = spec.system.installed(deployment).map_err(ClusterError)?;
        if let (Some(installed), Some(cache)) = (installed, spec.cache) {
            system.extend(Wanted::below(cache, &installed)?);
        }
    }
    Ok(WantedOfAll {
        agent: Wanted::program(Path::new("/proc/self/exe"), "riprap")?,
        program: program(Some(&spec.deployment))?,
        other_program: program(other)?,
        system,
    })
}

/// Makes sure that no two names are of one machine.
pub(super) fn check_twins(opened: &[Connection]) -> Result<(), ClusterError> {
    for (at, one) in opened.iter().enumerate() {
        if let Some(twin) = opened[..at].iter().find(|twin| twin.address() == one.address()) {
            let (address, one, twin) = (one.address(), one.name(), twin.name());
            return Err(ClusterError(format!(
                "{one} is {address}, and so is {twin}; a host for each node is right"
            )));
        }
    }
    Ok(())
}

/// Brings a host what it lacks. Returns its folder.
pub(super) fn bring(
    connection: &Connection,
    wanted: &WantedOfAll,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<PathBuf, ClusterError> {
    let host = upload::look(connection)?;
    upload::bring(connection, std::slice::from_ref(&wanted.agent), tell)?;
    // Before the rest is sent: a library that it needs may not be there.
    let try_it = format!("{} --version", quoted(&host.folder.join(&wanted.agent.remote)));
    connection.succeed("run this program", &try_it, std::io::empty())?;
    for program in [&wanted.program, &wanted.other_program].into_iter().flatten() {
        upload::bring(connection, std::slice::from_ref(program), tell)?;
    }
    upload::bring(connection, &wanted.system, tell)?;
    Ok(host.folder)
}

pub(super) fn begin_host(
    connection: Connection,
    folder: &Path,
    agent: &Wanted,
    begin: Begin,
) -> Result<Host, ClusterError> {
    let address = connection.address();
    let program = quoted(&folder.join(&agent.remote));
    let folder_word = quoted(folder);
    // What the system is made of is looked for where it was brought.
    let command = format!("RIPRAP_CACHE={folder_word} exec {program} agent --root {folder_word}");
    let remote = Remote::start(connection, &command)?;
    let Begun { harness, probe_port } = remote.ask(&Ask::Begin(Box::new(begin)))?;
    Ok(Host { remote, root: folder.to_owned(), harness, probes: SocketAddrV4::new(address, probe_port) })
}
