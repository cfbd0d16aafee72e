//! The command blocks of README and docs, run as they are written.
//!
//! A page is a script: its blocks run one after the other, in one new folder, in namespaces of their own (network,
//! mounts, processes), and each command must end with exit code 0. A command that stays (a proxy, a controller,
//! whatever a reader gives a terminal of its own) runs in the background once it has printed that it is ready, and
//! ends with its page. What a page cannot say for itself stands in a comment before the block, which the reader of the
//! page does not see:
//!
//! ```text
//! <!-- not run: WHY -->            the next block is listed with the reason, and not run
//! <!-- not run "TEXT": WHY -->     only those of its commands that begin with TEXT
//! <!-- slow: WHY -->               left out of the quick run; also with "TEXT"
//! <!-- needs PROGRAM -->           not run where this program, or this kind of device (such as "link macsec"), is missing;
//!                                  also with "TEXT"
//! <!-- given: COMMANDS -->         what the page takes for granted, done before the next block
//! <!-- file: PATH -->              the next block is the content of this file
//! <!-- output -->                  lines of the next block have been printed by now; numbers may differ
//! <!-- anew -->                    from here on with a new folder, network and nothing running
//! <!-- network: A eth0=fd00::1/64 eth1; B eth0=fd00::2/64 -->   hosts; interfaces of one name are one link
//! <!-- host: A -->                 blocks from here on run on this host
//! ```
//!
//! - [`markdown`]: blocks and marks of a page;
//! - [`session`]: what runs together, made of them;
//! - [`script`]: a session as a shell script;
//! - [`run`]: namespaces, limits in time, and what came of it.
#![forbid(unsafe_code)]

pub mod markdown;
pub mod run;
mod script;
pub mod session;

use std::path::{Path, PathBuf};

/// Every page of the repository at `root`, as paths from there, in order.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    walk(root, root, &mut found).map_err(|error| format!("{}: {error}", root.display()))?;
    found.sort();
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(root, &path, found)?;
            }
        } else if name.ends_with(".md") {
            found.push(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}
