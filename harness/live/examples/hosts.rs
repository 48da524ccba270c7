//! Hosts to try `riprap test --hosts` on, on this machine alone: three places of a sandbox's network, each with an sshd of its
//! own (Debian: openssh-server), host key and folder. To be run by root, for sshd gives up its rights.
//!
//! ```text
//! cargo run -p riprap-live --example hosts -- target/debug/riprap test --hosts {hosts} --ssh-key {key} --accept-new
//! ```
//!
//! It runs a command beside them, in whose words `{hosts}`, `{key}` and `{folder}` are replaced, with a HOME of its own, and
//! ends with its exit status. With HOSTS in its environment there are so many. Where there is a word `{spare}` the last is that,
//! and none of the others.

use riprap_live::sandbox::{Entered, Inside, Network, NodeIx, NodeProcess, ProcessSpec, enter};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const SSHD: &str = "/usr/sbin/sshd";
/// How long an sshd gets to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let outcome = match enter() {
        Ok(Entered::Done(code)) => return code.into(),
        Ok(Entered::Inside(inside)) => run(&inside),
        Err(e) => Err(e.into()),
    };
    outcome.unwrap_or_else(|e| {
        eprintln!("hosts: {e}");
        ExitCode::FAILURE
    })
}

fn run(inside: &Inside) -> Result<ExitCode, Box<dyn Error>> {
    let count = std::env::var("HOSTS").map_or(Ok(3), |count| count.parse())?;
    let network = Network::new(inside, count)?;
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("home"))?;
    make_key(&at("key"))?;
    // Where sshd leaves behind what it has not to see: not on the machine itself.
    mount_empty("/run")?;
    fs::create_dir("/run/sshd")?;
    let mut servers = Vec::new();
    for node in network.nodes() {
        servers.push(start_sshd(&network, node, folder.path())?);
    }
    let addresses: Vec<Ipv4Addr> = network.nodes().map(|node| network.address(node)).collect();
    for address in &addresses {
        await_listening(*address)?;
    }
    let mut hosts: Vec<String> = addresses.iter().map(|address| format!("root@{address}")).collect();
    let has_spare = std::env::args().any(|word| word.contains("{spare}"));
    let spare = if has_spare { hosts.pop() } else { None }.unwrap_or_default();
    let replace = |word: String| {
        word.replace("{hosts}", &hosts.join(","))
            .replace("{spare}", &spare)
            .replace("{key}", &at("key").display().to_string())
            .replace("{folder}", &folder.path().display().to_string())
    };
    let mut words = std::env::args().skip(1).map(replace);
    let program = words.next().ok_or("a command is missing, to be run beside the hosts")?;
    let status = Command::new(program).args(words).env("HOME", at("home")).status()?;
    drop(servers);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn start_sshd(network: &Network, node: NodeIx, folder: &Path) -> Result<NodeProcess, Box<dyn Error>> {
    let own = folder.join(node.to_string());
    fs::create_dir(&own)?;
    make_key(&own.join("host_key"))?;
    let config = format!(
        "ListenAddress {address}\nHostKey {own}/host_key\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\nUsePAM no\n\
         StrictModes no\nPermitRootLogin prohibit-password\nSetEnv HOME={own}\n",
        address = network.address(node),
        own = own.display(),
        folder = folder.display(),
    );
    let path = own.join("sshd_config");
    fs::write(&path, config)?;
    let spec = ProcessSpec {
        program: PathBuf::from(SSHD),
        args: ["-D".into(), "-e".into(), "-f".into(), path.into()].into(),
        env: BTreeMap::new(),
        cwd: None,
        log: own.join("sshd.log"),
    };
    NodeProcess::spawn(&spec, network, node)
        .map_err(|e| format!("{e}; Debian's openssh-server has it").into())
}

fn make_key(path: &Path) -> Result<(), Box<dyn Error>> {
    let status =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status()?;
    if status.success() { Ok(()) } else { Err(format!("ssh-keygen: {status}").into()) }
}

fn mount_empty(at: &str) -> Result<(), Box<dyn Error>> {
    let path = std::ffi::CString::new(at)?;
    // SAFETY: all strings end with a null and live through the call.
    let done =
        unsafe { libc::mount(c"none".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null()) };
    if done == 0 {
        Ok(())
    } else {
        Err(format!("failed to mount over {at}: {}", std::io::Error::last_os_error()).into())
    }
}

fn await_listening(address: Ipv4Addr) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + LISTEN_WAIT;
    loop {
        match TcpStream::connect_timeout(&(address, 22).into(), LISTEN_WAIT) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > deadline => return Err(format!("sshd at {address}: {e}").into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
