//! What concerns a whole process: signals, and its limit on open files.

use super::*;

/// A shell in a process of its own, for what concerns a whole process: signals, and its limit on open files.
struct Child {
    process: std::process::Child,
    dir: tempfile::TempDir,
    address: SocketAddr,
}

impl Child {
    /// Re-executes this test as [`child`], allowed to hold so many open files. Returns when it serves.
    fn start(open_files: u32) -> Child {
        let dir = tempfile::tempdir().expect("a folder");
        // The port was free a moment ago; a listener that nobody connected to leaves nothing behind.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("bound");
        drop(free);
        let process = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -n {open_files} && exec \"$0\" --exact shell::tests::process::child"))
            .arg(std::env::current_exe().expect("this test"))
            .env("RIPRAP_SHELL_TEST_DIR", dir.path())
            .env("RIPRAP_SHELL_TEST_LISTEN", address.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("runs itself");
        let child = Child { process, dir, address };
        child.wait_for_log("Start");
        child
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn wait_for_log(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(what) {
            assert!(Instant::now() < deadline, "no `{what}` in the log: {}", self.log());
            std::thread::yield_now();
        }
    }

    /// Asks it to end by a signal, and waits for that.
    fn terminate(mut self) {
        let kill = format!("kill -TERM {}", self.process.id());
        let killed = std::process::Command::new("sh").arg("-c").arg(kill).status();
        assert!(killed.expect("a shell").success());
        assert!(self.process.wait().expect("it ends").success());
        assert!(self.log().trim_end().contains("Stop"), "{}", self.log());
    }
}

impl Drop for Child {
    /// A test that failed leaves no process behind.
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Run by [`Child`]; started otherwise it does nothing.
#[test]
fn child() {
    let variable = |name| std::env::var(name).ok();
    let (Some(dir), Some(listen)) = (variable("RIPRAP_SHELL_TEST_DIR"), variable("RIPRAP_SHELL_TEST_LISTEN"))
    else {
        return;
    };
    let step = |now_ns: u64, event: Event, env: &mut dyn Env, effects: &mut Effects| {
        if matches!(event, Event::Start | Event::Stop) {
            log!(env, Info, "{event:?}");
        }
        echo(now_ns, event, env, effects);
    };
    let config = ShellConfig {
        listen: listen.parse().expect("an address"),
        dir: PathBuf::from(&dir).join("data"),
        seed: 1,
        entity: "n1".to_owned(),
        metrics: None,
        clock_offset: None,
    };
    let run = || run(&mut Script(step), config);
    assert_eq!(logging(Path::new(&dir), run).expect("runs"), 0);
}

#[test]
fn stops_on_sigterm() {
    Child::start(100).terminate();
}

#[test]
fn survives_running_out_of_open_files() {
    let child = Child::start(20);
    // The kernel completes these; the shell cannot accept them all.
    let mut streams: Vec<TcpStream> = (0..30).map(|_| connect(child.address)).collect();
    child.wait_for_log("failed to accept a connection: Too many open files");
    streams.drain(..25);
    for stream in &mut streams {
        stream.write_all(b"x").expect("writes");
        stream.read_exact(&mut [0]).expect("served once others have gone");
    }
    let failures = child.log().matches("failed to accept").count();
    // One each pause of 100 ms; a loop that spins writes thousands.
    assert!(failures < 300, "{failures} failures logged");
    child.terminate();
}
