//! Which packet numbers keys have used, in a file that is written ahead.
//!
//! With static keys, a process that starts again at packet number 1 uses nonces twice, and GCM
//! then gives its authentication key away. So numbers are reserved in the file before they are
//! used, many at a time: a crash loses some, and uses none twice. What was received is noted now
//! and then, and at the end: after a crash, frames since the last note could be replayed once.

use crate::failure::{Context, Failure};
use macsec::Sci;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How many numbers are reserved at a time: at a million frames a second the file is written four
/// times a second, and 16 000 crashes fit into 32 bits.
pub(super) const STEP: u64 = 1 << 18;

/// Tells keys apart without giving them away.
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

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct Numbers {
    path: PathBuf,
    /// The first number that was not reserved.
    sent: BTreeMap<Fingerprint, u64>,
    /// The first number that was not received.
    received: BTreeMap<(Sci, Fingerprint), u64>,
}

impl Numbers {
    /// Reads the file; one that is not there is empty.
    ///
    /// # Errors
    /// If it cannot be read or written, or is not one of these.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context(name(path)),
        };
        let (sent, received) = parse(&text)
            .map_err(|line| Failure::new(format_args!("{}, line {line}: damaged", name(path))))?;
        let numbers = Self { path: path.to_owned(), sent, received };
        // Before frames come, not after.
        numbers.save()?;
        Ok(numbers)
    }

    /// The first number that this key may send with.
    pub(super) fn unused(&self, key: Fingerprint) -> u64 {
        self.sent.get(&key).copied().unwrap_or(1)
    }

    /// The first number of this peer's that was not received.
    pub(super) fn unseen(&self, peer: Sci, key: Fingerprint) -> u64 {
        self.received.get(&(peer, key)).copied().unwrap_or(1)
    }

    /// Reserves numbers from `next` on, and says up to which, exclusive. All that were reserved
    /// before stay so.
    ///
    /// # Errors
    /// If the file cannot be written; then nothing may be sent.
    pub(super) fn reserve(&mut self, key: Fingerprint, next: u64) -> Result<u64, Failure> {
        let end = next.saturating_add(STEP).max(self.unused(key));
        self.sent.insert(key, end);
        self.save()?;
        Ok(end)
    }

    /// Gives numbers back that were not used.
    pub(super) fn settle(&mut self, key: Fingerprint, next: u64) {
        self.sent.insert(key, next);
    }

    /// Notes what was received; the file is written with [`save`](Self::save).
    pub(super) fn note(&mut self, peer: Sci, key: Fingerprint, next: u64) -> bool {
        let noted = self.received.entry((peer, key)).or_insert(1);
        let newer = *noted < next;
        *noted = next.max(*noted);
        newer
    }

    /// Writes the file, whole or not at all, and onto the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let mut text = String::from(
            "# Packet numbers that keys have used. Without this file they would be used twice.\n",
        );
        for (key, next) in &self.sent {
            let _ = writeln!(text, "tx {:016x} {next}", key.0);
        }
        for ((peer, key), next) in &self.received {
            let _ = writeln!(text, "{peer} {:016x} {next}", key.0);
        }
        self.replace(&text).context(name(&self.path))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(".part");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        // The rename is in the directory.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

type Parsed = (BTreeMap<Fingerprint, u64>, BTreeMap<(Sci, Fingerprint), u64>);

/// What a file says, or the number of the line that it does not say it in.
fn parse(text: &str) -> Result<Parsed, usize> {
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
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

    #[test]
    fn numbers_outlive_the_process_and_are_used_once() {
        let path = std::env::temp_dir().join(format!("lightseal-numbers-{}", std::process::id()));
        let (key, other) = (Fingerprint::of(b"key"), Fingerprint::of(b"other"));
        let mut numbers = Numbers::open(&path).unwrap();
        assert_eq!((numbers.unused(key), numbers.unseen(PEER, key)), (1, 1));
        assert_eq!(numbers.reserve(key, 1).unwrap(), 1 + STEP);
        assert!(numbers.note(PEER, other, 77) && !numbers.note(PEER, other, 70));

        // It crashed: what was reserved is gone, and what was received since is not known.
        let mut numbers = Numbers::open(&path).unwrap();
        assert_eq!((numbers.unused(key), numbers.unused(other)), (1 + STEP, 1));
        assert_eq!(numbers.unseen(PEER, other), 1);
        assert_eq!(numbers.reserve(key, 1 + STEP).unwrap(), 1 + 2 * STEP);
        numbers.note(PEER, other, 78);
        numbers.settle(key, STEP + 10);
        numbers.save().unwrap();

        // It ended well.
        let numbers = Numbers::open(&path).unwrap();
        assert_eq!((numbers.unused(key), numbers.unseen(PEER, other)), (STEP + 10, 78));
        let mut last = Numbers::open(&path).unwrap();
        assert_eq!(last.reserve(other, u64::MAX - 1).unwrap(), u64::MAX);
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
