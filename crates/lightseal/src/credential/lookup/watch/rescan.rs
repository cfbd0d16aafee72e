//! Looks a directory through now and then for changes of which the kernel has not told.
//!
//! A write through another hard link of a file is such a change, and one beneath a file system that is
//! stacked on others. A part of the directory has its turn with each question, so that a large one keeps
//! nobody waiting, and nothing is remembered of single files: what has changed since the last time says
//! so by its change time, which no program can set.

use std::ffi::OsString;
use std::fs::ReadDir;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long it takes from one time that the directory is looked through to the next, at least.
const PERIOD: Duration = Duration::from_secs(60);

/// How many files are looked at in one turn: some milliseconds.
const MOST_AT_ONCE: usize = 4096;

/// By how much the change time of a file may be behind the clock.
const SLACK: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The files of these names have changed.
    These(Vec<OsString>),
    /// Everything may have changed.
    All,
}

/// Looks a directory through.
#[derive(Debug)]
pub(super) struct Rescan {
    path: PathBuf,
    /// When the next time is due.
    pub(super) due: Instant,
    /// The files that are still to be looked at.
    files: Option<ReadDir>,
    /// When the directory was begun to be looked through last, and the time before.
    began: SystemTime,
    since: SystemTime,
    /// The change time of the directory itself, in seconds and nanoseconds.
    directory: (i64, i64),
    /// Whether the kernel has told of changes since that time.
    has_heard: bool,
}

fn changed_at(path: &Path) -> io::Result<(i64, i64)> {
    path.metadata().map(|of| (of.ctime(), of.ctime_nsec()))
}

impl Rescan {
    /// A directory about which everything is asked now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let now = SystemTime::now();
        Ok(Self {
            path: path.to_owned(),
            due: Instant::now() + PERIOD,
            files: None,
            began: now,
            since: now,
            directory: changed_at(path)?,
            has_heard: false,
        })
    }

    /// Looks at some files. `heard` says whether the kernel has told of changes since the last call.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub(super) fn step(&mut self, now: Instant, heard: bool) -> io::Result<Found> {
        self.has_heard |= heard;
        if self.files.is_none() {
            if now < self.due {
                return Ok(Found::These(Vec::new()));
            }
            self.due = now + PERIOD;
            if self.begin()? {
                return Ok(Found::All);
            }
        }
        let mut these = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            let Some(file) = self.files.as_mut().and_then(Iterator::next) else {
                self.files = None;
                break;
            };
            let file = file?;
            if let Ok(metadata) = file.metadata()
                && is_since(&metadata, self.since)
            {
                these.push(file.file_name());
            }
        }
        Ok(Found::These(these))
    }

    /// Begins to look the directory through. Returns whether everything may have changed: names were
    /// added or removed without a word of the kernel, or the clock was set back.
    fn begin(&mut self) -> io::Result<bool> {
        let now = SystemTime::now();
        let was_set_back = now < self.began;
        self.since = std::mem::replace(&mut self.began, now);
        let directory = changed_at(&self.path)?;
        let has_changed = std::mem::replace(&mut self.directory, directory) != directory;
        let has_heard = std::mem::take(&mut self.has_heard);
        self.files = Some(self.path.read_dir()?);
        Ok(was_set_back || has_changed && !has_heard)
    }
}

/// Whether a file has changed since a time.
fn is_since(metadata: &std::fs::Metadata, since: SystemTime) -> bool {
    let changed = u64::try_from(metadata.ctime()).map(Duration::from_secs).unwrap_or_default();
    SystemTime::UNIX_EPOCH + changed + SLACK >= since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_looked_through_in_parts_for_what_has_changed() {
        let name = format!("lightseal-rescan-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        let count = MOST_AT_ONCE + 10;
        (0..count).for_each(|n| std::fs::write(path.join(n.to_string()), "").unwrap());
        let mut rescan = Rescan::of(&path).unwrap();
        let found = |rescan: &mut Rescan, heard| match rescan.step(rescan.due, heard).unwrap() {
            Found::These(these) => Some(these.len()),
            Found::All => None,
        };
        let early = rescan.due - Duration::from_millis(1);
        assert_eq!(rescan.step(early, false).unwrap(), Found::These(Vec::new()), "not yet");
        // All files are newer than the last time, however long it took to make them.
        let long_ago = Duration::from_secs(600);
        rescan.began -= long_ago;
        assert_eq!(found(&mut rescan, false), Some(MOST_AT_ONCE));
        assert_eq!(found(&mut rescan, false), Some(count - MOST_AT_ONCE));
        rescan.began += SLACK * 10;
        assert_eq!(found(&mut rescan, false), None, "the clock was set back");
        while rescan.files.is_some() {
            found(&mut rescan, false);
        }
        let metadata = path.metadata().unwrap();
        assert!(is_since(&metadata, SystemTime::now() - SLACK * 2));
        assert!(!is_since(&metadata, SystemTime::now() + SLACK * 2), "it was told before");
        for (heard, expected) in [(true, Some(MOST_AT_ONCE)), (false, None)] {
            std::fs::rename(path.join("7"), path.join("x")).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            std::fs::rename(path.join("x"), path.join("7")).unwrap();
            rescan.began -= long_ago;
            assert_eq!(found(&mut rescan, heard), expected, "told of: {heard}");
            while rescan.files.is_some() {
                found(&mut rescan, false);
            }
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
