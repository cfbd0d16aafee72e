//! Rights that a gateway needs to open its sockets and gives up afterwards.
//!
//! Linux keeps user ids and capabilities for each thread. [`drop_to`] therefore runs while the
//! process has only one thread; threads that are started later inherit the remaining rights.

use crate::ErrorLine;

/// A user and its group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of the user's group.
    pub gid: u32,
}

impl User {
    /// Finds a user of `/etc/passwd` by name or by number. A number that is not in `/etc/passwd` is
    /// a user whose group has the same number.
    ///
    /// # Errors
    /// If there is no such user, or the user or its group is root.
    pub fn named(name: &str) -> Result<Self, ErrorLine> {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::within(&passwd, name)
    }

    fn within(passwd: &str, name: &str) -> Result<Self, ErrorLine> {
        let number = name.parse().ok();
        let found = passwd.lines().find_map(|line| {
            // passwd(5): name, password, user, group, ...
            let mut fields = line.split(':');
            let login = fields.next()?;
            let uid: u32 = fields.nth(1)?.parse().ok()?;
            let gid: u32 = fields.next()?.parse().ok()?;
            (login == name || Some(uid) == number).then_some(Self { uid, gid })
        });
        let user = found.or(number.map(|number| Self { uid: number, gid: number }));
        match user {
            None => Err(ErrorLine::new(format_args!("user {name:?}: no such user"))),
            Some(Self { uid: 0, .. } | Self { gid: 0, .. }) => Err(ErrorLine::new(format_args!(
                "user {name:?}: its rights would still be those of root"
            ))),
            // The kernel takes the highest number to mean that the id stays unchanged.
            Some(Self { uid: u32::MAX, .. } | Self { gid: u32::MAX, .. }) => {
                Err(ErrorLine::new(format_args!("user {name:?}: no such number")))
            }
            Some(user) => Ok(user),
        }
    }

    /// Whether this process has no ids but those of the user. A program that another user has
    /// started may have the rights of that user, or regain them, through its effective or saved
    /// ids.
    #[cfg(target_os = "linux")]
    fn is_this_process(self) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        self.has_all_ids(&status)
    }

    /// Checks the real, effective, saved and file system ids in proc_pid_status(5).
    #[cfg(target_os = "linux")]
    fn has_all_ids(self, status: &str) -> bool {
        [("Uid:", self.uid), ("Gid:", self.gid)].into_iter().all(|(field, own)| {
            let ids = status.lines().find_map(|line| line.strip_prefix(field));
            ids.is_some_and(|ids| ids.split_whitespace().all(|id| id.parse() == Ok(own)))
        })
    }
}

/// Gives up everything that open sockets do not need: identities and groups of other users, all
/// capabilities, and the means to regain them (`no_new_privs`, bounding set). With `user` the
/// process becomes that user first; without, its user is unchanged.
///
/// To be called while the process has one thread.
///
/// # Errors
/// If the process has more than one thread, or the operating system refuses a step.
#[cfg(target_os = "linux")]
pub fn drop_to(user: Option<User>) -> Result<(), ErrorLine> {
    use rustix::thread::{self, CapabilitySet, CapabilitySets};
    let failed = |what: &'static str| move |error| ErrorLine::of(what, error);
    if threads().is_none_or(|threads| threads > 1) {
        return Err(ErrorLine::new("privileges must be dropped before threads are started"));
    }
    let before = thread::capabilities(None).map_err(failed("capabilities"))?;
    if before.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..64 {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            let bounded = thread::capability_is_in_bounding_set(capability);
            // For capabilities that this kernel does not know, the query returns an error.
            if bounded.unwrap_or(false) {
                thread::remove_capability_from_bounding_set(capability)
                    .map_err(failed("bounding set"))?;
            }
        }
    }
    if let Some(user) = user.filter(|user| !user.is_this_process()) {
        let (uid, gid) = (thread::Uid::from_raw(user.uid), thread::Gid::from_raw(user.gid));
        thread::set_thread_groups(&[]).map_err(failed("groups of other users"))?;
        thread::set_thread_res_gid(gid, gid, gid).map_err(failed("change of group"))?;
        thread::set_thread_res_uid(uid, uid, uid).map_err(failed("change of user"))?;
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    thread::set_capabilities(None, sets).map_err(failed("capabilities"))?;
    // A kernel that does not support the ambient set has none to clear.
    let _ = thread::clear_ambient_capability_set();
    thread::set_no_new_privs(true).map_err(failed("no_new_privs"))
}

/// The warning to give if [`stays_root`].
pub const STAYS_ROOT: &str = "the gateway runs as root, and stays root: name another user in \
                              [gateway] user, or start it as one (capabilities are given up, \
                              access to root's files is not)";

/// Whether the process is root after it became `user`, or kept its user if there is none.
#[cfg(target_os = "linux")]
pub fn stays_root(user: Option<User>) -> bool {
    user.is_none() && rustix::process::geteuid().is_root()
}

/// Whether the process is root after it became `user`, or kept its user if there is none.
#[cfg(not(target_os = "linux"))]
pub fn stays_root(_: Option<User>) -> bool {
    false
}

/// Number of threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Rights that a gateway needs and this process does not have: to open raw sockets, to load and
/// attach AF_XDP programs if `xdp`, and to become `user` if that is another user.
#[cfg(target_os = "linux")]
pub fn missing(xdp: bool, user: Option<User>) -> Vec<&'static str> {
    use rustix::thread::CapabilitySet;
    let may = rustix::thread::capabilities(None).map(|sets| sets.effective);
    let may = may.unwrap_or(CapabilitySet::empty());
    let mut missing = Vec::new();
    if !may.contains(CapabilitySet::NET_RAW) {
        missing.push("open raw sockets (CAP_NET_RAW)");
    }
    if xdp && !may.contains(CapabilitySet::NET_ADMIN) {
        missing.push("attach to interfaces (CAP_NET_ADMIN)");
    }
    if xdp && !may.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN) {
        missing.push("load programs (CAP_BPF)");
    }
    let becoming = CapabilitySet::SETUID | CapabilitySet::SETGID;
    if user.is_some_and(|user| !user.is_this_process()) && !may.contains(becoming) {
        missing.push("become another user (CAP_SETUID, CAP_SETGID)");
    }
    missing
}

/// Rights that a gateway needs and this process does not have.
#[cfg(not(target_os = "linux"))]
pub fn missing(_: bool, _: Option<User>) -> Vec<&'static str> {
    vec!["open AF_PACKET sockets (only Linux has them)"]
}

/// Gives up everything that open sockets do not need.
///
/// # Errors
/// Always: gateways run only on Linux.
#[cfg(not(target_os = "linux"))]
pub fn drop_to(_: Option<User>) -> Result<(), ErrorLine> {
    Err(ErrorLine::new("a gateway needs Linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nlight:x:990:980::/:/bin/false\nbroken\n";

    #[test]
    fn users_are_found_by_name_or_number_and_never_root() {
        let user = |name| User::within(PASSWD, name).ok();
        assert_eq!(user("light"), Some(User { uid: 990, gid: 980 }));
        assert_eq!(user("990"), user("light"));
        assert_eq!(user("65534"), Some(User { uid: 65534, gid: 65534 }));
        for wrong in ["root", "0", "broken", "nobody", "", "-1", "4294967295", "4294967296"] {
            assert_eq!(user(wrong), None, "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_a_user_by_all_of_its_ids() {
        let light = User { uid: 990, gid: 980 };
        let is = |uid, gid| light.has_all_ids(&format!("Name:\tx\nUid:\t{uid}\nGid:\t{gid}\n"));
        let (uid, gid) = ("990\t990\t990\t990", "980\t980\t980\t980");
        assert!(is(uid, gid));
        for other in ["990\t0\t0\t0", "990\t990\t0\t990", "0\t990\t990\t990"] {
            assert!(!is(other, gid), "{other}");
        }
        assert!(!is(uid, "980\t0\t0\t0") && !is(uid, "0\t0\t0\t0"));
        assert!(!light.has_all_ids(""));
    }
}
