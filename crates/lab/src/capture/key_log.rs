//! The secrets of a run.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// Collects the secrets of any number of engines. The lines are sorted by client random, then by
/// label, so that their order does not depend on the order in which they came. A secret that both
/// ends log is kept once.
///
/// The secrets decrypt all traffic of their associations. They are zeroized when dropped.
#[derive(Default)]
pub struct KeyLog(Mutex<BTreeMap<String, Zeroizing<String>>>);

impl KeyLog {
    /// Writes all lines (SSLKEYLOGFILE, RFC 9850).
    ///
    /// # Errors
    ///
    /// Fails when they cannot be written.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for line in self.lines().values() {
            out.write_all(line.as_bytes())?;
        }
        out.flush()
    }

    /// Writes all lines into a file that only its owner may read.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        self.write(options.open(path)?)
    }

    /// All lines of the key log as one text.
    pub fn text(&self) -> Zeroizing<String> {
        let lines = self.lines();
        let len = lines.values().map(|line| line.len()).sum();
        let mut text = Zeroizing::new(String::with_capacity(len));
        lines.values().for_each(|line| text.push_str(line));
        text
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Zeroizing<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl lightseal_dtls::KeyLog for KeyLog {
    fn log(&self, line: &str) {
        let mut words = line.split(' ');
        let (label, random) = (words.next(), words.next());
        let place = [random, label].map(Option::unwrap_or_default).join(" ");
        self.lines().insert(place, Zeroizing::new(format!("{line}\n")));
    }
}

impl core::fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "KeyLog({} lines)", self.lines().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_dtls::KeyLog as _;

    #[test]
    fn the_order_is_that_of_associations_and_nothing_stands_twice() {
        let lines = ["B 02 aa", "A 02 bb", "A 01 cc"];
        let logged = |order: [usize; 3]| {
            let log = KeyLog::default();
            order.iter().for_each(|i| log.log(lines[*i]));
            log.log(lines[0]);
            let mut out = Vec::new();
            log.write(&mut out).unwrap();
            assert_eq!(log.text().as_bytes(), out);
            assert!(!format!("{log:?}").contains("bb"));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(logged([0, 1, 2]), "A 01 cc\nA 02 bb\nB 02 aa\n");
        assert_eq!(logged([2, 0, 1]), logged([0, 1, 2]));
    }
}
