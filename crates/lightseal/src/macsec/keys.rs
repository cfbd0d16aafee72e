//! The file of MACsec keys.
//!
//! ```text
//! # whose                AN  first number  key                               SSCI      salt
//! tx                     0   1             000102030405060708090a0b0c0d0e0f
//! 02:00:00:00:00:02/1    0   1             101112131415161718191a1b1c1d1e1f
//! ```
//!
//! Keys never appear in a message, nor on a command line, where every user of the machine could
//! read them.

use super::numbers::Fingerprint;
use crate::failure::{Context, Failure};
use crate::keys::{decode_hex, refuse_exposed};
use lightseal_macsec::{
    AssociationNumber, CipherSuite, ConfidentialityOffset, GcmProvider, SaKey, Sci, XpnParameters,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use zeroize::Zeroizing;

/// Maximum length of a key file in bytes. At 120 bytes per line it has 8000 keys.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The keys of a key file. The file is locked, so that no other process uses the keys meanwhile.
pub(super) struct KeyFile {
    /// The keys in the order of the file.
    pub(super) entries: Vec<Entry>,
    /// The locked file. Two processes with the same key would use its packet numbers twice.
    _lock: File,
}

/// One line of the file.
pub(super) struct Entry {
    /// The peer that sends with this key; `None` if this station sends with it.
    pub(super) peer: Option<Sci>,
    pub(super) an: AssociationNumber,
    /// The first packet number to send with, or the lowest packet number to accept.
    pub(super) first_pn: u64,
    pub(super) key: SaKey,
    pub(super) fingerprint: Fingerprint,
}

impl KeyFile {
    /// Reads the file and locks it against other processes.
    ///
    /// # Errors
    /// If the file cannot be read, is in use, has no key to send with, or has an invalid line.
    pub(super) fn open(
        path: &Path,
        suite: CipherSuite,
        offset: ConfidentialityOffset,
        provider: &GcmProvider,
    ) -> Result<Self, Failure> {
        let name = format!("key file {}", path.display());
        let mut file = File::open(path).context(&name)?;
        let metadata = file.metadata().context(&name)?;
        if !metadata.is_file() {
            return Err(Failure::new(format_args!("{name}: not a file")));
        }
        refuse_exposed(&name, path, &metadata)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(Failure::new(format_args!("{name}: longer than 1 MiB")));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Failure::new(format_args!("{name}: another process sends with it")));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(error).context(&name),
        }
        // The buffer has its full size from the beginning: a buffer that grows leaves copies of
        // keys in memory.
        let mut text = Zeroizing::new(String::with_capacity(metadata.len() as usize + 1));
        (&mut file).take(MAX_FILE_BYTES).read_to_string(&mut text).context(&name)?;
        let entries = parse(&text, suite, offset, provider)
            .map_err(|(line, what)| Failure::new(format_args!("{name}, line {line}: {what}")))?;
        if entries.iter().all(|entry| entry.peer.is_some()) {
            return Err(Failure::new(format_args!("{name} has no key to send with (tx)")));
        }
        Ok(Self { entries, _lock: file })
    }

    /// The number of peers.
    pub(super) fn peers(&self) -> usize {
        self.entries.iter().filter_map(|entry| entry.peer).collect::<BTreeSet<_>>().len()
    }
}

fn parse(
    text: &str,
    suite: CipherSuite,
    offset: ConfidentialityOffset,
    provider: &GcmProvider,
) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = entry(line, suite, offset, provider).map_err(|what| (number, what))?;
        let place = (entry.peer, entry.an);
        if entries.iter().any(|other| (other.peer, other.an) == place) {
            return Err((number, format!("association {} has a key already", entry.an)));
        }
        let twice = |other: &Entry| other.peer.is_none() && other.fingerprint == entry.fingerprint;
        if entry.peer.is_none() && entries.iter().any(twice) {
            return Err((number, "the same key to send with (tx) appears twice".into()));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(
    line: &str,
    suite: CipherSuite,
    offset: ConfidentialityOffset,
    provider: &GcmProvider,
) -> Result<Entry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&[whose, an, pn, hex], rest) =
        words.split_first_chunk().ok_or("expected: tx or SCI, association, number, key")?;
    let peer = match whose {
        "tx" => None,
        sci => Some(sci.parse().map_err(|error| format!("{error}, or tx"))?),
    };
    let an = an.parse().ok().and_then(AssociationNumber::new);
    let an = an.ok_or("an association is 0, 1, 2 or 3")?;
    let first_pn = pn.parse().ok().filter(|pn| (1..=suite.last_pn()).contains(pn));
    let first_pn = first_pn
        .ok_or_else(|| format!("packet numbers of {suite} go from 1 to {}", suite.last_pn()))?;
    let bytes = decode_hex(hex).ok_or("the key is not hexadecimal")?;
    let extended = match *rest {
        [] => None,
        [ssci, salt] => {
            Some(extended(ssci, salt).ok_or("an SSCI has 4 bytes and a salt 12, in hexadecimal")?)
        }
        _ => return Err("expected nothing behind the key, or SSCI and salt".into()),
    };
    let key = SaKey::new(provider, suite, &bytes, extended, offset);
    let key = key.map_err(|error| error.to_string())?;
    Ok(Entry { peer, an, first_pn, key, fingerprint: Fingerprint::of(&bytes) })
}

fn extended(ssci: &str, salt: &str) -> Option<XpnParameters> {
    let ssci = decode_hex(ssci)?.as_slice().try_into().ok()?;
    let salt = decode_hex(salt)?.as_slice().try_into().ok()?;
    Some(XpnParameters { ssci: u32::from_be_bytes(ssci), salt })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";
    const XPN: &str = "7a30c118 e630e81a48de86a21c66fa6d";

    fn read(text: &str, suite: CipherSuite) -> Result<Vec<Entry>, (usize, String)> {
        let provider = super::super::provider();
        parse(text, suite, ConfidentialityOffset::None, provider)
    }

    fn wrong(text: &str, suite: CipherSuite, line: usize, what: &str) {
        let (at, said) = read(text, suite).err().unwrap();
        assert!(at == line && said.contains(what), "{at}: {said}");
        assert!(!said.contains("0001"), "{said}");
    }

    #[test]
    fn lines_are_read_in_their_order() {
        let text = format!(
            "# keys\n\ntx 3 7 {HEX}\n tx\t0 1 ff{}\n02:00:00:00:00:02/5 3 9 {HEX}",
            &HEX[2..]
        );
        let entries = read(&text, CipherSuite::GcmAes128).unwrap();
        let peer = Sci { address: [2, 0, 0, 0, 0, 2], port: 5 };
        let read: Vec<_> = entries.iter().map(|e| (e.peer, e.an.get(), e.first_pn)).collect();
        assert_eq!(read, [(None, 3, 7), (None, 0, 1), (Some(peer), 3, 9)]);
        assert!(entries[0].fingerprint == entries[2].fingerprint);
        assert!(entries[0].fingerprint != entries[1].fingerprint);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let plain = CipherSuite::GcmAes128;
        wrong("tx 0 1", plain, 1, "expected: tx or SCI");
        wrong(&format!("#\nme 0 1 {HEX}"), plain, 2, "expected an SCI such as");
        wrong(&format!("tx 4 1 {HEX}"), plain, 1, "0, 1, 2 or 3");
        wrong(&format!("tx 0 0 {HEX}"), plain, 1, "from 1 to 4294967295");
        wrong(&format!("tx 0 4294967296 {HEX}"), plain, 1, "from 1 to 4294967295");
        wrong("tx 0 1 key", plain, 1, "not hexadecimal");
        wrong(&format!("tx 0 1 {HEX}00"), plain, 1, "have 16 bytes");
        wrong(&format!("tx 0 1 {HEX}"), CipherSuite::GcmAes256, 1, "have 32 bytes");
        wrong(&format!("tx 0 1 {HEX} {XPN}"), plain, 1, "no SSCI and no salt");
        wrong(&format!("tx 0 1 {HEX}"), CipherSuite::GcmAesXpn128, 1, "needs an SSCI and a salt");
        wrong(
            &format!("tx 0 1 {HEX} 7a30 00"),
            CipherSuite::GcmAesXpn128,
            1,
            "4 bytes and a salt 12",
        );
        wrong(&format!("tx 0 1 {HEX} 1"), plain, 1, "nothing behind the key");
        wrong(&format!("tx 0 1 {HEX}\ntx 0 1 {HEX}"), plain, 2, "association 0 has a key already");
        wrong(&format!("tx 0 1 {HEX}\ntx 1 1 {HEX}"), plain, 2, "twice");
        let shared = format!("02:00:00:00:00:02/1 0 1 {HEX}\ntx 0 1 {HEX}");
        assert!(read(&shared, plain).is_ok(), "a key of a whole association");
        assert!(read(&format!("tx 0 4294967296 {HEX} {XPN}"), CipherSuite::GcmAesXpn128).is_ok());
    }
}
