//! Removes what demonstrations left behind that were killed before they could clean up.
//!
//! The names of their namespaces and directories contain the process ID of the demonstration. If
//! that process no longer runs, they are removed.

use super::NAME_PREFIX;
use rustix::process::{Pid, getuid, test_kill_process};
use std::os::unix::fs::MetadataExt;

/// Removes namespaces with their processes, and directories with keys. What belongs to another user
/// cannot be removed, and stays.
pub(super) fn remove() {
    #[cfg(target_os = "linux")]
    remove_namespaces();
    remove_folders();
}

/// Whether a demonstration gave this name whose process no longer runs.
fn is_left_over(name: &str) -> bool {
    let id = name.strip_prefix(NAME_PREFIX).and_then(|rest| rest.split('-').next());
    let Some(id) = id.and_then(|id| id.parse().ok()).and_then(Pid::from_raw) else { return false };
    test_kill_process(id) == Err(rustix::io::Errno::SRCH)
}

#[cfg(target_os = "linux")]
fn remove_namespaces() {
    use super::namespaces::{lines_of_ip, remove_namespace};
    // Only root can have made namespaces, so other users find none.
    for line in lines_of_ip(&["netns", "list"]) {
        let name = line.split(' ').next().unwrap_or_default();
        if is_left_over(name) {
            for id in lines_of_ip(&["netns", "pids", name]) {
                if let Some(id) = id.trim().parse().ok().and_then(Pid::from_raw) {
                    let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
                }
            }
            remove_namespace(name);
        }
    }
}

fn remove_folders() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        // `metadata` of a directory entry does not follow links.
        let is_ours =
            entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == getuid().as_raw());
        if is_ours && entry.file_name().to_str().is_some_and(is_left_over) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_process_that_runs_is_no_leftover() {
        let own = std::process::id();
        assert!(!is_left_over(&format!("{NAME_PREFIX}{own}-3")));
        assert!(!is_left_over("lightseal-demo-x-3") && !is_left_over("lightseal-demo-0-3"));
        assert!(!is_left_over("another-1-3"));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert!(is_left_over(&format!("{NAME_PREFIX}{}-bridge", ended.id())));
    }
}
