//! The names of files with keys.

use super::source::{PskIdentity, written};
use lightseal_dtls::Identity;

/// The longest name that a file can have (NAME_MAX of Linux and of POSIX file systems).
const MOST_NAME_BYTES: usize = 255;

/// The name of the file with the key of an identity; `None` if no file can have that name.
pub(super) fn file_name(identity: &[u8]) -> Option<String> {
    let mut name = written(identity).replace('/', "%2f");
    if let Some(rest) = name.strip_prefix('.') {
        name = format!("%2e{rest}");
    }
    (!name.is_empty() && name.len() <= MOST_NAME_BYTES).then_some(name)
}

/// The identity whose key is in a file with this name; `None` if it is no such file.
pub(super) fn identity_of(name: &[u8]) -> Option<PskIdentity> {
    let name = std::str::from_utf8(name).ok()?;
    let Ok(Identity::Psk(identity)) = format!("psk:{name}").parse() else { return None };
    (file_name(&identity)? == name).then(|| identity.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_names_one_file_in_the_directory_and_no_other() {
        for (identity, name) in [
            (&b"sensor-7"[..], "sensor-7"),
            (b"urn:dev:mac:0024befffe804ff1", "urn:dev:mac:0024befffe804ff1"),
            (b"../../etc/passwd", "%2e.%2f..%2fetc%2fpasswd"),
            (b"/etc/shadow", "%2fetc%2fshadow"),
            (b".", "%2e"),
            (b"a b%20\xff\0", "a%20b%2520%ff%00"),
        ] {
            assert_eq!(file_name(identity).as_deref(), Some(name));
            assert_eq!(identity_of(name.as_bytes()).as_deref(), Some(identity));
        }
        assert_eq!(file_name(&[b'x'; 255]).map(|name| name.len()), Some(255));
        assert_eq!((file_name(&[b'x'; 256]), file_name(b"")), (None, None));
        for other in [".", "..data", ".hidden", "%41", "a%2Fb", "a b", ""] {
            assert_eq!(identity_of(other.as_bytes()), None, "{other:?}");
        }
    }
}
