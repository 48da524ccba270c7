//! Why a sandbox cannot be had, in one line that says which setting to change.

use super::netlink::Refusal;
use super::sys;
use std::fmt;
use std::fs;
use std::io;
use thiserror::Error;

/// Why the sandbox could not be made, or how it ended before its time.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The kernel refuses the namespaces.
    #[error("the kernel refuses a sandbox: {call}: {source}; {remedy}, or run riprap {elsewhere}")]
    Refused {
        /// The call that was refused.
        call: String,
        /// What the kernel said.
        source: io::Error,
        /// What to change.
        remedy: Remedy,
        /// Who or where else would not be refused.
        elsewhere: &'static str,
    },
    /// Something in the making of the sandbox failed that no setting explains.
    #[error("failed to make the sandbox: {what}: {source}")]
    Setup {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The environment claims that this process is in a sandbox and nothing proves it.
    #[error("environment variable {variable} is set but nothing proves a sandbox; unset it", variable = super::enter::MARKER)]
    Unproven,
    /// Another thread of this process waits for its own sandbox.
    #[error("this process already waits for a sandbox; one at a time")]
    Busy,
    /// The process inside was ended by a signal.
    #[error("the process inside the sandbox was ended by signal {0}")]
    Killed(i32),
    /// The user asked twice, and everything inside was killed.
    #[error("interrupted twice: everything inside the sandbox was killed before it could end in order")]
    Interrupted,
    /// The supervisor inside ended without a word (killed, or out of memory).
    #[error("the sandbox vanished without reporting a status; was its first process killed?")]
    Vanished,
    /// The kernel refused a part of the network.
    #[error("failed to {what}: {refusal}{hint}", hint = network_hint(refusal))]
    Network {
        /// What was attempted.
        what: String,
        /// What the kernel said.
        refusal: Refusal,
    },
    /// More nodes than a network has.
    #[error("{asked} nodes asked for; 1 to {most} is what a sandbox's network holds")]
    NodeCount {
        /// How many.
        asked: usize,
        /// The limit.
        most: usize,
    },
}

impl SandboxError {
    pub(super) fn network(what: impl Into<String>) -> impl FnOnce(Refusal) -> SandboxError {
        let what = what.into();
        move |refusal| SandboxError::Network { what, refusal }
    }

    pub(super) fn setup(what: impl Into<String>) -> impl FnOnce(io::Error) -> SandboxError {
        let what = what.into();
        move |source| SandboxError::Setup { what, source }
    }
}

/// What a kernel without the parts that the network is made of answers.
fn network_hint(refusal: &Refusal) -> &'static str {
    match refusal.source.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::ENOENT | libc::EAFNOSUPPORT) => {
            "; the kernel needs bridge, veth and nf_tables with its bridge family (as root: modprobe -a bridge veth nf_tables)"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "; a security policy takes the sandbox's capabilities away (AppArmor: sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0)"
        }
        _ => "",
    }
}

/// What would let the kernel grant a sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// `user.max_user_namespaces`, or the like for another kind, is 0 or used up.
    Limit {
        /// The setting, under `/proc/sys`, with dots.
        setting: &'static str,
        /// Its value now.
        value: Option<u64>,
    },
    /// Debian's switch for unprivileged users.
    UnprivilegedClone,
    /// Ubuntu's restriction through AppArmor.
    AppArmor,
    /// The seccomp profile of a container engine, or of a service manager.
    Seccomp,
    /// 32 levels of user namespaces are in use.
    Depth,
    /// The kernel was built without.
    KernelBuild,
    /// Nothing that can be read explains the refusal.
    Unknown,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Limit { setting, value: Some(value) } => {
                write!(f, "{setting} is {value}: as root, sysctl -w {setting}=10000")
            }
            Remedy::Limit { setting, value: None } => {
                write!(f, "{setting} is used up: as root, raise it by sysctl -w")
            }
            Remedy::UnprivilegedClone => {
                let setting = "kernel.unprivileged_userns_clone";
                write!(f, "{setting} is 0: as root, sysctl -w {setting}=1")
            }
            Remedy::AppArmor => {
                let setting = "kernel.apparmor_restrict_unprivileged_userns";
                write!(f, "{setting} is 1: as root, sysctl -w {setting}=0")
            }
            Remedy::Seccomp => write!(
                f,
                "a seccomp filter, as containers and services have, forbids it: start the container with --security-opt \
                 seccomp=unconfined, or --privileged"
            ),
            Remedy::Depth => write!(f, "32 nested user namespaces are the kernel's limit: end some"),
            Remedy::KernelBuild => {
                write!(
                    f,
                    "the kernel needs CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS"
                )
            }
            Remedy::Unknown => write!(f, "a chroot, a container or a security policy forbids it: leave it"),
        }
    }
}

/// What this machine says about its own policy on namespaces.
#[derive(Clone, Default, Debug)]
pub(super) struct Policy {
    max_user_namespaces: Option<u64>,
    max_net_namespaces: Option<u64>,
    max_pid_namespaces: Option<u64>,
    max_mnt_namespaces: Option<u64>,
    unprivileged_userns_clone: Option<u64>,
    apparmor_restrict_unprivileged_userns: Option<u64>,
    /// The process runs under a seccomp filter.
    filtered: bool,
    /// The process is root's, though it may lack capabilities.
    root: bool,
}

impl Policy {
    pub(super) fn read() -> Policy {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let seccomp = status.lines().any(|l| l.strip_prefix("Seccomp:").is_some_and(|v| v.trim() == "2"));
        Policy {
            max_user_namespaces: sys::setting("user/max_user_namespaces"),
            max_net_namespaces: sys::setting("user/max_net_namespaces"),
            max_pid_namespaces: sys::setting("user/max_pid_namespaces"),
            max_mnt_namespaces: sys::setting("user/max_mnt_namespaces"),
            unprivileged_userns_clone: sys::setting("kernel/unprivileged_userns_clone"),
            apparmor_restrict_unprivileged_userns: sys::setting(
                "kernel/apparmor_restrict_unprivileged_userns",
            ),
            filtered: seccomp,
            // SAFETY: geteuid touches no memory.
            root: unsafe { libc::geteuid() } == 0,
        }
    }

    /// What to change so that the call that failed with `errno` succeeds.
    pub(super) fn remedy(&self, errno: Option<i32>) -> Remedy {
        let limits = [
            ("user.max_user_namespaces", self.max_user_namespaces),
            ("user.max_net_namespaces", self.max_net_namespaces),
            ("user.max_pid_namespaces", self.max_pid_namespaces),
            ("user.max_mnt_namespaces", self.max_mnt_namespaces),
        ];
        match errno {
            Some(libc::ENOSPC) => match limits.iter().find(|(_, value)| *value == Some(0)) {
                Some(&(setting, value)) => Remedy::Limit { setting, value },
                None => Remedy::Limit { setting: "user.max_user_namespaces", value: None },
            },
            Some(libc::EUSERS) => Remedy::Depth,
            Some(libc::EPERM | libc::EACCES) if self.unprivileged_userns_clone == Some(0) && !self.root => {
                Remedy::UnprivilegedClone
            }
            Some(libc::EPERM | libc::EACCES)
                if self.apparmor_restrict_unprivileged_userns == Some(1) && !self.root =>
            {
                Remedy::AppArmor
            }
            Some(libc::EPERM | libc::EACCES | libc::EINVAL | libc::ENOSYS) if self.filtered => {
                Remedy::Seccomp
            }
            Some(libc::EINVAL | libc::ENOSYS) => Remedy::KernelBuild,
            _ => Remedy::Unknown,
        }
    }

    /// The error for a `call` that the kernel refused.
    pub(super) fn refused(&self, call: impl Into<String>, source: io::Error) -> SandboxError {
        let remedy = self.remedy(source.raw_os_error());
        let elsewhere = match (&remedy, self.root) {
            (Remedy::KernelBuild, _) => "on another kernel",
            (Remedy::Depth, _) => "further out",
            (Remedy::Seccomp, _) => "outside of it",
            (_, false) => "as root",
            (_, true) => "with all capabilities",
        };
        SandboxError::Refused { call: call.into(), source, remedy, elsewhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_the_setting_to_change() {
        let open = Policy { max_user_namespaces: Some(1000), ..Policy::default() };
        let off = Policy { max_user_namespaces: Some(0), ..Policy::default() };
        let no_net = Policy { max_net_namespaces: Some(0), ..open.clone() };
        let debian = Policy { unprivileged_userns_clone: Some(0), ..open.clone() };
        let ubuntu = Policy { apparmor_restrict_unprivileged_userns: Some(1), ..open.clone() };
        let docker = Policy { filtered: true, root: true, ..debian.clone() };
        let root = Policy { root: true, ..off.clone() };
        for (policy, errno, expect) in [
            (&off, libc::ENOSPC, "sysctl -w user.max_user_namespaces=10000, or run riprap as root"),
            (&root, libc::ENOSPC, "user.max_user_namespaces=10000, or run riprap with all capabilities"),
            (&root, libc::EPERM, "leave it, or run riprap with all capabilities"),
            (&no_net, libc::ENOSPC, "user.max_net_namespaces is 0"),
            (&open, libc::ENOSPC, "user.max_user_namespaces is used up"),
            (&debian, libc::EPERM, "kernel.unprivileged_userns_clone=1, or run riprap as root"),
            (&ubuntu, libc::EACCES, "kernel.apparmor_restrict_unprivileged_userns=0, or run riprap as root"),
            (&docker, libc::EPERM, "--security-opt seccomp=unconfined"),
            (&docker, libc::ENOSYS, "--security-opt seccomp=unconfined"),
            (&open, libc::EPERM, "a chroot, a container"),
            (&open, libc::EUSERS, "32 nested"),
            (&open, libc::EINVAL, "CONFIG_USER_NS"),
        ] {
            let message = policy.refused("clone", io::Error::from_raw_os_error(errno)).to_string();
            assert!(message.contains(expect), "{message:?} should say {expect:?}");
            assert!(!message.contains('\n'), "{message:?} is one line");
        }
    }
}
