//! The packet numbers that keys have used, in a file that is written ahead of their use.
//!
//! With static keys, a process that starts again at packet number 1 would use nonces twice, and GCM
//! then reveals its authentication key. Therefore packet numbers are reserved in the file before
//! they are used, many at a time: a crash loses some numbers, but uses none twice. Received packet
//! numbers are written to the file from time to time and at the end: after a crash, frames that
//! were received since the last time could be replayed once.
//!
//! A missing file is an error, since keys that have sent before would begin at 1 again. The flag
//! `--first-use` says that the keys have never sent anything.
//! they have not says so (`--first-use`).

use crate::failure::{Context, Failure};
use lightseal_macsec::Sci;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Number of packet numbers that are reserved at a time. At a million frames per second the file is
/// written four times per second, and 16 000 crashes fit into 32 bits.
pub(super) const STEP: u64 = 1 << 18;
/// The first line of the file. An empty file is therefore a damaged one.
const HEAD: &str =
    "# Packet numbers that keys have used. Without this file they would be used twice.\n";

/// Identifies a key in the file without revealing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(key: &[u8]) -> Self {
        let mut hash = Sha256::new_with_prefix(b"lightseal macsec numbers");
        hash.update(key);
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// The file and its content.
#[derive(Debug)]
pub(super) struct NumbersFile {
    path: PathBuf,
    /// The locked file. Two processes that write it would use numbers twice.
    file: File,
    /// The text of the file when it was last read or written.
    text: Option<String>,
    /// For each key to send with, the first packet number that is not reserved.
    sent: BTreeMap<Fingerprint, u64>,
    /// For each peer and key, the packet number after the highest one that was received.
    received: BTreeMap<(Sci, Fingerprint), u64>,
}

impl NumbersFile {
    /// Reads the file and locks it against other processes. With `first_use` the file is created,
    /// and must not exist.
    ///
    /// # Errors
    /// If the file is missing, in use, cannot be read or written, or is no numbers file.
    pub(super) fn open(path: &Path, first_use: bool) -> Result<Self, Failure> {
        if first_use {
            lightseal_owner_only::file::create(path, HEAD.as_bytes()).map_err(
                |error| match error.kind() {
                    io::ErrorKind::AlreadyExists => Failure::new(format_args!(
                        "{} exists already: its keys have been used, start without --first-use",
                        name(path)
                    )),
                    _ => Failure::new(format_args!("{}: {error}", name(path))),
                },
            )?;
        }
        let Some(file) = locked(path)? else {
            return Err(Failure::new(format_args!(
                "{} is missing: restore it, or make new keys; add --first-use if these keys have \
                 never sent anything",
                name(path)
            )));
        };
        let (sent, received, text) = (BTreeMap::new(), BTreeMap::new(), None);
        let mut numbers = Self { path: path.to_owned(), file, text, sent, received };
        // A file that cannot be written is an error now, before frames arrive.
        numbers.save()?;
        Ok(numbers)
    }

    /// The first packet number that this key may still send with.
    pub(super) fn unused(&self, key: Fingerprint) -> u64 {
        self.sent.get(&key).copied().unwrap_or(1)
    }

    /// The packet number after the highest one that was received from this peer under this key.
    pub(super) fn unseen(&self, peer: Sci, key: Fingerprint) -> u64 {
        self.received.get(&(peer, key)).copied().unwrap_or(1)
    }

    /// Reserves packet numbers from `next` on, and returns the first number that is not reserved.
    /// Earlier reservations remain.
    ///
    /// # Errors
    /// If the file cannot be written, or another program has reserved numbers of this key in it.
    /// Then nothing may be sent.
    pub(super) fn reserve(&mut self, key: Fingerprint, next: u64) -> Result<u64, Failure> {
        let before = self.unused(key);
        self.read_again()?;
        if self.unused(key) > before {
            let name = name(&self.path);
            return Err(Failure::new(format_args!("{name}: another program sends with this key")));
        }
        let end = next.saturating_add(STEP).max(before);
        self.sent.insert(key, end);
        self.save()?;
        Ok(end)
    }

    /// Gives back the reserved packet numbers from `next` on, which were not used.
    pub(super) fn settle(&mut self, key: Fingerprint, next: u64) {
        self.sent.insert(key, next);
    }

    /// Remembers what was received, and returns whether it is more than before.
    /// [`save`](Self::save) writes it to the file.
    pub(super) fn note(&mut self, peer: Sci, key: Fingerprint, next: u64) -> bool {
        let noted = self.received.entry((peer, key)).or_insert(1);
        let newer = *noted < next;
        *noted = next.max(*noted);
        newer
    }

    /// Writes the file to the disk, either completely or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or another process has locked it.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.read_again()?;
        let mut text = String::from(HEAD);
        for (key, next) in &self.sent {
            let _ = writeln!(text, "tx {:016x} {next}", key.0);
        }
        for ((peer, key), next) in &self.received {
            let _ = writeln!(text, "{peer} {:016x} {next}", key.0);
        }
        let lock = |file: &File| file.try_lock().map_err(io::Error::from);
        let file = lightseal_owner_only::file::replace(&self.path, 0o600, text.as_bytes(), lock);
        // The former file remains locked until the new one is in its place.
        self.file = file.context(name(&self.path))?;
        self.text = Some(text);
        Ok(())
    }

    /// Merges in what others have written since, such as a restored backup or an edited file. The
    /// higher of two numbers is kept.
    fn read_again(&mut self) -> Result<(), Failure> {
        if !is_at(&self.file, &self.path).context(name(&self.path))? {
            match locked(&self.path)? {
                Some(file) => self.file = file,
                // The file was removed, and the next write creates it again.
                None => return Ok(()),
            }
        }
        let text = std::fs::read_to_string(&self.path).context(name(&self.path))?;
        if self.text.as_ref() == Some(&text) {
            return Ok(());
        }
        let damaged =
            |line| Failure::new(format_args!("{}, line {line}: damaged", name(&self.path)));
        let (sent, received) = parse(&text).map_err(damaged)?;
        for (key, next) in sent {
            let own = self.sent.entry(key).or_insert(next);
            *own = next.max(*own);
        }
        for (from, next) in received {
            let own = self.received.entry(from).or_insert(next);
            *own = next.max(*own);
        }
        self.text = Some(text);
        Ok(())
    }
}

/// Opens and locks the file; `None` if it is missing.
fn locked(path: &Path) -> Result<Option<File>, Failure> {
    loop {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(name(path)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let name = name(path);
                return Err(Failure::new(format_args!("{name}: another process sends with it")));
            }
            Err(TryLockError::Error(error)) => return Err(error).context(name(path)),
        }
        // The file may have been replaced between opening and locking it. Then the new one is
        // opened.
        if is_at(&file, path).context(name(path))? {
            return Ok(Some(file));
        }
    }
}

/// Whether `file` is the file that is at `path` now.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

type NumbersContent = (BTreeMap<Fingerprint, u64>, BTreeMap<(Sci, Fingerprint), u64>);

/// Parses the content of a file. The error is the number of the first invalid line.
fn parse(text: &str) -> Result<NumbersContent, usize> {
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    if text.is_empty() {
        return Err(1);
    }
    for (number, line) in (1_usize..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or(number);
        let (whose, key, next) = (word()?, word()?, word()?);
        let key = Fingerprint(u64::from_str_radix(key, 16).map_err(|_| number)?);
        let next = next.parse().map_err(|_| number)?;
        match whose {
            "tx" => sent.insert(key, next),
            peer => received.insert((peer.parse().map_err(|_| number)?, key), next),
        };
    }
    Ok((sent, received))
}

fn name(path: &Path) -> String {
    format!("numbers file {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Sci = Sci { address: [2, 0, 0, 0, 0, 2], port: 1 };

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("lightseal-numbers-{name}-{}", std::process::id()))
    }

    /// What a process finds that starts after the former one has ended.
    fn again(numbers: NumbersFile) -> NumbersFile {
        let path = numbers.path.clone();
        drop(numbers);
        NumbersFile::open(&path, false).unwrap()
    }

    #[test]
    fn numbers_outlive_the_process_and_are_used_once() {
        let path = path("once");
        let (key, other) = (Fingerprint::of(b"key"), Fingerprint::of(b"other"));
        let mut numbers = NumbersFile::open(&path, true).unwrap();
        assert_eq!((numbers.unused(key), numbers.unseen(PEER, key)), (1, 1));
        assert_eq!(numbers.reserve(key, 1).unwrap(), 1 + STEP);
        assert!(numbers.note(PEER, other, 77) && !numbers.note(PEER, other, 70));

        // After a crash, reserved numbers are lost, and what was received since the last write is
        // unknown.
        let mut numbers = again(numbers);
        assert_eq!((numbers.unused(key), numbers.unused(other)), (1 + STEP, 1));
        assert_eq!(numbers.unseen(PEER, other), 1);
        assert_eq!(numbers.reserve(key, 1 + STEP).unwrap(), 1 + 2 * STEP);
        numbers.note(PEER, other, 78);
        numbers.settle(key, STEP + 10);
        numbers.save().unwrap();

        // After an orderly end, reserved numbers that were not used are free again.
        let mut last = again(numbers);
        assert_eq!((last.unused(key), last.unseen(PEER, other)), (STEP + 10, 78));
        assert_eq!(last.reserve(other, u64::MAX - 1).unwrap(), u64::MAX);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_missing_file_is_made_only_where_one_asks_for_it() {
        let path = path("missing");
        let said = NumbersFile::open(&path, false).unwrap_err().to_string();
        assert!(said.contains("is missing") && said.contains("--first-use"), "{said}");
        drop(NumbersFile::open(&path, true).unwrap());
        let said = NumbersFile::open(&path, true).unwrap_err().to_string();
        assert!(said.contains("start without --first-use"), "{said}");
        // Earlier versions wrote files like this one.
        std::fs::write(&path, format!("{HEAD}tx {:016x} 5\n", Fingerprint::of(b"k").0)).unwrap();
        let numbers = NumbersFile::open(&path, false).unwrap();
        assert_eq!(numbers.unused(Fingerprint::of(b"k")), 5);
        drop(numbers);
        std::fs::write(&path, "").unwrap();
        assert!(NumbersFile::open(&path, false).unwrap_err().to_string().contains("damaged"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_has_one_user_also_after_it_was_written() {
        let path = path("user");
        let mut numbers = NumbersFile::open(&path, true).unwrap();
        for _ in 0..2 {
            let said = NumbersFile::open(&path, false).unwrap_err().to_string();
            assert!(said.contains("another process sends with it"), "{said}");
            numbers.save().unwrap();
        }
        drop(numbers);
        drop(NumbersFile::open(&path, false).unwrap());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_others_wrote_counts_if_it_is_higher_and_a_file_that_is_gone_is_written_again() {
        let path = path("others");
        let key = Fingerprint::of(b"key");
        let mut numbers = NumbersFile::open(&path, true).unwrap();
        assert_eq!(numbers.reserve(key, 1).unwrap(), 1 + STEP);
        let backup = std::fs::read_to_string(&path).unwrap();
        assert_eq!(numbers.reserve(key, 1 + STEP).unwrap(), 1 + 2 * STEP);
        // A restored backup has lower numbers, and changes nothing.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, backup).unwrap();
        assert_eq!(numbers.reserve(key, 1 + 2 * STEP).unwrap(), 1 + 3 * STEP);
        let far = 10 * STEP;
        std::fs::write(&path, format!("{HEAD}tx {:016x} {far}\n", key.0)).unwrap();
        let said = numbers.reserve(key, 1 + 3 * STEP).unwrap_err().to_string();
        assert!(said.contains("another program sends with this key"), "{said}");
        std::fs::remove_file(&path).unwrap();
        numbers.save().unwrap();
        let numbers = again(numbers);
        assert_eq!(numbers.unused(key), far);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_damaged_file_is_refused() {
        assert!(parse("# fine\ntx 0123456789abcdef 5\n02:00:00:00:00:02/1 0 7\n").is_ok());
        for damaged in ["tx", "tx 1", "tx 1 x", "tx x 1", "me 1 1", ""] {
            assert_eq!(parse(&format!("# fine\n{damaged}\n")).unwrap_err(), 2, "{damaged:?}");
        }
    }
}
