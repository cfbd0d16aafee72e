//! The names of files with keys.

use super::source::written;
#[cfg(any(target_os = "linux", test))]
use super::source::{Kind, PeerIdentity, read};
use lightseal_dtls::Identity;

/// The longest name that a file can have (NAME_MAX of Linux and of POSIX file systems).
const MOST_NAME_BYTES: usize = 255;

/// The name of the file of an identity; `None` if no file can have that name.
pub(super) fn file_name(identity: &Identity) -> Option<String> {
    let mut name = written(identity).replace('/', "%2f");
    if let Some(rest) = name.strip_prefix('.') {
        name = format!("%2e{rest}");
    }
    (!name.is_empty() && name.len() <= MOST_NAME_BYTES).then_some(name)
}

/// The identity whose file has this name; `None` if it is no such file. The kernel of Linux tells such
/// names.
#[cfg(any(target_os = "linux", test))]
pub(super) fn identity_of(kind: Kind, name: &[u8]) -> Option<PeerIdentity> {
    let name = std::str::from_utf8(name).ok()?;
    let identity = read(kind, name)?;
    (file_name(&identity)? == name).then_some(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psk(identity: &[u8]) -> Identity {
        Identity::Psk(identity.to_vec())
    }

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
            let identity = psk(identity);
            assert_eq!(file_name(&identity).as_deref(), Some(name));
            assert_eq!(identity_of(Kind::Psks, name.as_bytes()).as_deref(), Some(&identity));
        }
        assert_eq!(file_name(&psk(&[b'x'; 255])).map(|name| name.len()), Some(255));
        assert_eq!((file_name(&psk(&[b'x'; 256])), file_name(&psk(b""))), (None, None));
        for other in [".", "..data", ".hidden", "%41", "a%2Fb", "a b", ""] {
            assert_eq!(identity_of(Kind::Psks, other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn public_keys_and_names_have_files_of_their_own_kind() {
        let hash = "0a".repeat(32);
        for (identity, name) in [
            (Identity::Key([10; 32]), format!("spki:{hash}")),
            (Identity::Subject("a.example".into()), "subject:a.example".into()),
            (Identity::Subject("CN=a/b c".into()), "subject:CN=a%2fb%20c".into()),
        ] {
            assert_eq!(file_name(&identity).as_ref(), Some(&name));
            assert_eq!(identity_of(Kind::Peers, name.as_bytes()).as_deref(), Some(&identity));
            // An identity of a pre-shared key may look like another one, and is not.
            let as_psk = identity_of(Kind::Psks, name.as_bytes());
            assert!(as_psk.is_none_or(|of| matches!(*of, Identity::Psk(_))));
        }
        for other in ["psk:a", "a.example", "spki:0A", &format!("spki:{}", hash.to_uppercase())] {
            assert_eq!(identity_of(Kind::Peers, other.as_bytes()), None, "{other:?}");
        }
    }
}
