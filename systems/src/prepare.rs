//! Programs that make a node ready before it starts for the first time: one for each node, all at once.

use riprap_core::cluster::NodeId;
use std::process::{Child, Command, Stdio};

/// Runs these to their ends; `what` they do, in words. Errors: the last line that the first of them said that failed.
pub(crate) fn run_all(what: &str, commands: Vec<(NodeId, Command)>) -> Result<(), String> {
    let mut begun: Vec<(NodeId, Child)> = Vec::new();
    let mut failed = None;
    for (node, mut command) in commands {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match piped.spawn() {
            Ok(child) => begun.push((node, child)),
            Err(e) => {
                let program = command.get_program().display();
                failed = Some(format!("failed to start {program} for {node}: {e}"));
                break;
            }
        }
    }
    // Those that did begin are waited for all the same: nobody else would.
    for (node, child) in begun {
        let output = child.wait_with_output();
        let why = match output {
            Ok(output) if output.status.success() => continue,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().rfind(|line| !line.trim().is_empty());
                last.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
            }
            Err(e) => e.to_string(),
        };
        failed.get_or_insert(format!("failed to {what} {node}: {why}"));
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told() {
        let check = |scripts: &[&str], expect: Option<&str>| {
            let commands = scripts.iter().zip(1..).map(|(script, n)| {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", script]);
                (NodeId(n), command)
            });
            assert_eq!(run_all("format", commands.collect()).err().as_deref(), expect, "{scripts:?}");
        };
        check(&[], None);
        check(&["true", "true"], None);
        check(&["true", "echo no disk >&2; echo >&2; exit 1"], Some("failed to format n2: no disk"));
        check(&["exit 3", "exit 4"], Some("failed to format n1: exit status: 3"));
        let missing = run_all("format", vec![(NodeId(1), Command::new("/no/such"))]);
        assert!(missing.is_err_and(|why| why.starts_with("failed to start /no/such for n1: ")));
    }
}
