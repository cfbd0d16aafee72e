//! Runs the command blocks of README and docs as they are written.
//!
//! A page is a script. Its blocks run one after the other, in a new directory and in namespaces of
//! their own (network, mounts, processes), and each command must end with exit code 0. A command
//! that keeps running (a proxy, a controller, or whatever else a reader starts in a terminal of its
//! own) runs in the background once it has printed that it is ready, and is ended with its page.
//! What a page cannot say in its text is in a comment before the block, which readers of the page
//! do not see:
//!
//! ```text
//! <!-- not run: WHY -->            the next block is not run, and listed with the reason
//! <!-- not run "TEXT": WHY -->     only its commands that begin with TEXT are not run
//! <!-- slow: WHY -->               the quick run leaves the block out; also with "TEXT"
//! <!-- needs PROGRAM -->           not run if this program, or this kind of device (such as
//!                                  "link macsec"), is missing; also with "TEXT"
//! <!-- given: COMMANDS -->         commands that the page assumes to be done; they run
//!                                  before the next block
//! <!-- file: PATH -->              the next block is the content of this file
//! <!-- output -->                  the lines of the next block must have been printed by now;
//!                                  numbers may differ
//! <!-- anew -->                    from here on in a new directory and network, where nothing runs
//! <!-- network: A eth0=fd00::1/64 eth1; B eth0=fd00::2/64 -->
//!                                  the hosts; interfaces with the same name share a link
//! <!-- host: A -->                 from here on blocks run on this host
//! ```
//!
//! - [`markdown`]: the blocks and marks of a page;
//! - [`session`]: the sessions that the blocks form;
//! - [`script`]: a session as a shell script;
//! - [`run`]: namespaces, time limits, and results.
#![forbid(unsafe_code)]

pub mod markdown;
pub mod run;
mod script;
pub mod session;

use std::path::{Path, PathBuf};

/// All pages of the repository at `root`, as sorted paths relative to `root`.
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
