//! SSH, as far as riprap needs it: a host that proves that it is the one, a user who does, and commands.

use riprap_core::cluster::ClusterError;
use ssh2::{Channel, CheckResult, HashType, HostKeyType, KnownHostFileKind, MethodType, Session};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

const PORT: u16 = 22;
const USER: &str = "root";
/// How long a host may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long it may be silent while it works: it starts virtual machines, formats disks and reads whole programs.
const SILENCE: Duration = Duration::from_secs(120);
/// What OpenSSH prefers, which wrote the file of known hosts that is read: another kind of key would be unknown.
const HOST_KEYS: &str = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256,ssh-rsa";
/// Keys of users, below their homes, as OpenSSH names them.
const USUAL_KEYS: &[&str] = &[".ssh/id_ed25519", ".ssh/id_ecdsa", ".ssh/id_rsa"];

/// A host as it is asked for: `[USER@]HOST[:PORT]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName {
    user: String,
    host: String,
    port: u16,
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.host)?;
        if self.port == PORT { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<HostName, String> {
        let wrong = || "[USER@]HOST[:PORT] is right".to_owned();
        let (user, place) = text.split_once('@').unwrap_or((USER, text));
        let (host, port) = match place.split_once(':') {
            None => (place, PORT),
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?),
        };
        let is_plain =
            |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '/');
        if !is_plain(user) || !is_plain(host) {
            return Err(wrong());
        }
        Ok(HostName { user: user.to_owned(), host: host.to_owned(), port })
    }
}

impl HostName {
    /// The port that SSH listens at.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// How hosts are logged in to.
#[derive(Clone, Debug)]
pub struct Login {
    /// The file with the user's key; if none, those of an agent of SSH, then the usual ones.
    pub key: Option<PathBuf>,
    /// Whether a host that nobody knows is believed, and written down.
    pub accept_new: bool,
    /// The file of known hosts.
    pub known_hosts: PathBuf,
}

impl Login {
    /// With what OpenSSH uses. Errors: one line.
    pub fn usual(key: Option<PathBuf>, accept_new: bool) -> Result<Login, String> {
        let home = home().ok_or("HOME is not set, below which ~/.ssh/known_hosts is")?;
        Ok(Login { key, accept_new, known_hosts: home.join(".ssh/known_hosts") })
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// What a command came to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) status: i32,
    pub(super) out: Vec<u8>,
    pub(super) err: String,
}

/// A connection to a host, logged in.
pub(super) struct Connection {
    session: Session,
    name: HostName,
    address: Ipv4Addr,
}

impl Connection {
    pub(super) fn open(name: &HostName, login: &Login) -> Result<Connection, ClusterError> {
        let failed = |what: &dyn fmt::Display| ClusterError(format!("failed to log in to {name}: {what}"));
        let (stream, address) = connect(name).map_err(|why| failed(&why))?;
        let mut session = Session::new().map_err(|e| failed(&e))?;
        session.set_timeout(u32::try_from(SILENCE.as_millis()).expect("it is short"));
        session.set_tcp_stream(stream);
        session.method_pref(MethodType::HostKey, HOST_KEYS).map_err(|e| failed(&e))?;
        session.handshake().map_err(|e| failed(&e))?;
        check_host(&session, name, login).map_err(|why| failed(&why))?;
        log_in(&session, name, login).map_err(|why| failed(&why))?;
        Ok(Connection { session, name: name.clone(), address })
    }

    pub(super) fn name(&self) -> &HostName {
        &self.name
    }

    /// Where it is.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Starts a command, to talk with.
    pub(super) fn start(&self, command: &str) -> Result<Channel, ClusterError> {
        let mut channel = self.session.channel_session().map_err(|e| self.lost(&e))?;
        channel.exec(command).map_err(|e| self.lost(&e))?;
        Ok(channel)
    }

    /// Runs a command to its end, giving it what it reads.
    pub(super) fn run(&self, command: &str, mut given: impl Read) -> Result<Done, ClusterError> {
        let mut channel = self.start(command)?;
        let mut done = Done { status: 0, out: Vec::new(), err: String::new() };
        let mut talk = || {
            // What ends before it has read all has said why.
            let given = io::copy(&mut given, &mut channel);
            channel.flush().ok();
            channel.send_eof()?;
            channel.read_to_end(&mut done.out)?;
            channel.stderr().read_to_string(&mut done.err)?;
            channel.wait_close()?;
            done.status = channel.exit_status()?;
            if done.status == 0 { given.map(drop) } else { Ok(()) }
        };
        talk().map_err(|e| self.lost(&e))?;
        Ok(done)
    }

    /// The same; what fails is an error. Returns what it said.
    pub(super) fn succeed(
        &self,
        what: &str,
        command: &str,
        given: impl Read,
    ) -> Result<Vec<u8>, ClusterError> {
        let done = self.run(command, given)?;
        if done.status == 0 {
            return Ok(done.out);
        }
        let last = done.err.lines().rfind(|line| !line.trim().is_empty());
        let why = last.map_or_else(|| format!("exit status {}", done.status), |line| line.trim().to_owned());
        Err(ClusterError(format!("failed to {what} on {}: {why}", self.name)))
    }

    fn lost(&self, why: &dyn fmt::Display) -> ClusterError {
        ClusterError(format!("the connection to {} is lost: {why}", self.name))
    }
}

fn connect(name: &HostName) -> Result<(TcpStream, Ipv4Addr), String> {
    let found = (name.host.as_str(), name.port).to_socket_addrs().map_err(|e| e.to_string())?;
    let found = found.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    let mut why = "it has no address of IPv4, which is what packet filters here know".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address.into(), CONNECT_WAIT) {
            Ok(stream) => {
                // Questions and answers are short, and each waits for the one before.
                stream.set_nodelay(true).map_err(|e| e.to_string())?;
                return Ok((stream, *address.ip()));
            }
            Err(e) => why = format!("{address}: {e}"),
        }
    }
    Err(why)
}

/// Whether the host is the one that is known by its name.
fn check_host(session: &Session, name: &HostName, login: &Login) -> Result<(), String> {
    let path = &login.known_hosts;
    let (key, kind) = session.host_key().ok_or("it has no key")?;
    let mut known = session.known_hosts().map_err(|e| e.to_string())?;
    if path.exists() {
        known
            .read_file(path, KnownHostFileKind::OpenSSH)
            .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    }
    let fingerprint = fingerprint(session);
    match known.check_port(&name.host, name.port, key) {
        CheckResult::Match => Ok(()),
        CheckResult::NotFound if login.accept_new => add_host(path, name, key, kind),
        CheckResult::NotFound => Err(format!(
            "its key {fingerprint} is not in {}; --accept-new adds it, if it is right",
            path.display()
        )),
        CheckResult::Mismatch => Err(format!(
            "its key {fingerprint} is not the one that {} has for it: another machine answers, or its key was changed; \
             `ssh-keygen -R` removes the old one, if that is right",
            path.display()
        )),
        CheckResult::Failure => Err(format!("its key cannot be looked up in {}", path.display())),
    }
}

fn fingerprint(session: &Session) -> String {
    let hash = session.host_key_hash(HashType::Sha256).unwrap_or_default();
    let bytes: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("SHA256 {}", bytes.join(":"))
}

/// Writes down a host's key behind those that are known.
fn add_host(path: &Path, name: &HostName, key: &[u8], kind: HostKeyType) -> Result<(), String> {
    let host = match name.port {
        PORT => name.host.clone(),
        port => format!("[{}]:{port}", name.host),
    };
    let session = Session::new().map_err(|e| e.to_string())?;
    let mut one = session.known_hosts().map_err(|e| e.to_string())?;
    one.add(&host, key, "added by riprap --accept-new", kind.into()).map_err(|e| e.to_string())?;
    let entries = one.iter().map_err(|e| e.to_string())?;
    let lines: Result<String, _> =
        entries.iter().map(|entry| one.write_string(entry, KnownHostFileKind::OpenSSH)).collect();
    let lines = lines.map_err(|e| e.to_string())?;
    let append = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A line at a time: others append as well.
        File::options().append(true).create(true).open(path)?.write_all(lines.as_bytes())
    };
    append().map_err(|e| format!("failed to add its key to {}: {e}", path.display()))
}

fn log_in(session: &Session, name: &HostName, login: &Login) -> Result<(), String> {
    if let Some(key) = &login.key {
        if let Err(e) = File::open(key) {
            return Err(format!("--ssh-key {}: {e}", key.display()));
        }
        return session
            .userauth_pubkey_file(&name.user, None, key, None)
            .map_err(|e| format!("--ssh-key {}: {e}", key.display()));
    }
    if session.userauth_agent(&name.user).is_ok() {
        return Ok(());
    }
    let usual = home().into_iter().flat_map(|home| USUAL_KEYS.iter().map(move |key| home.join(key)));
    let mut tried = Vec::new();
    for key in usual.filter(|key| key.exists()) {
        match session.userauth_pubkey_file(&name.user, None, &key, None) {
            Ok(()) => return Ok(()),
            Err(e) => tried.push(format!("{}: {e}", key.display())),
        }
    }
    Err(match tried.as_slice() {
        [] => "no agent of SSH has a key that it takes, and no usual file has one; --ssh-key FILE is right"
            .to_owned(),
        tried => format!("{}; --ssh-key FILE is right", tried.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named() {
        let check = |text: &str, expect: Option<(&str, &str, u16)>| {
            let read = text.parse::<HostName>();
            let found = read.as_ref().ok().map(|name| (name.user.as_str(), name.host.as_str(), name.port));
            assert_eq!(found, expect, "{text}");
            if let Err(why) = &read {
                assert_eq!(why, "[USER@]HOST[:PORT] is right");
            }
        };
        check("a", Some(("root", "a", 22)));
        check("me@a.example", Some(("me", "a.example", 22)));
        check("me@10.0.0.1:2222", Some(("me", "10.0.0.1", 2222)));
        for wrong in ["", "@a", "me@", "a:", "a:0", "a:x", "a:99999", "a b", "a/b"] {
            check(wrong, None);
        }
        let shown = |text: &str| text.parse::<HostName>().expect("right").to_string();
        assert_eq!((shown("a"), shown("me@b:2222")), ("root@a".to_owned(), "me@b:2222".to_owned()));
    }
}
