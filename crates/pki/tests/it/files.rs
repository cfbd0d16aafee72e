//! Keys, certificates and trust from files, which are read again.
#![cfg(unix)]

use crate::world::{
    End, P256, PROVIDER, RAW, X509, check, client, crl, params, root, settings, trusting,
};
use lightseal_dtls::crypto::PrivateKeyError;
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, KeyStore, OfferedCertificates, PeerKey,
    PresentedCertificate,
};
use lightseal_pki::file::{KeyFiles, ReloadingKeys, ReloadingVerifier, TrustFiles};
use lightseal_pki::replace::{ReplaceableKeys, ReplaceableVerifier};
use lightseal_pki::{LoadError, SpkiHash, Trust, TrustError, certified_key, raw_key};
use rcgen::PublicKeyData;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("lightseal-pki-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Replaces a file as a whole, with a mode.
    fn file(&self, name: &str, mode: u32, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        lightseal_owner_only::file::replace(&path, mode, content.as_ref(), |_| Ok(())).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn offered() -> OfferedCertificates<'static> {
    OfferedCertificates::new(&[X509, RAW], &[P256])
}

/// The peer's own certificate or key that the store shows.
fn shown(store: &dyn KeyStore) -> Vec<u8> {
    store.choose(&offered()).unwrap().entries()[0].clone()
}

#[test]
fn keys_are_read_from_pem_and_der_in_all_forms() {
    let end = End::self_signed(&params("end", &[]));
    let (certificate, pem) = (end.certificate.pem(), end.key.serialize_pem());
    let der = end.key.serialized_der();
    let load = |certificates: &[u8], key: &[u8]| {
        certified_key(&PROVIDER, certificates, key).map(|key| key.entries().to_vec())
    };
    let expected = Ok(vec![end.der().to_vec()]);
    assert_eq!(load(certificate.as_bytes(), pem.as_bytes()), expected);
    assert_eq!(load(end.der(), der), expected);
    assert_eq!(load(end.der(), pem.as_bytes()), expected);
    // One file with both, in either order.
    let both = format!("{pem}{certificate}");
    assert_eq!(load(both.as_bytes(), both.as_bytes()), expected);
    let raw = raw_key(&PROVIDER, der).unwrap();
    assert_eq!((raw.kind(), &raw.entries()[0][..]), (RAW, &end.key.subject_public_key_info()[..]));
}

#[test]
fn unusable_keys_are_named() {
    let (end, other) = (End::self_signed(&params("a", &[])), End::self_signed(&params("b", &[])));
    let (certificate, pem) = (end.certificate.pem(), end.key.serialize_pem());
    let load = |certificates: &str, key: &str| {
        certified_key(&PROVIDER, certificates.as_bytes(), key.as_bytes()).map(drop)
    };
    assert_eq!(load(&certificate, &other.key.serialize_pem()), Err(LoadError::WrongKey));
    let chain = other.certificate.pem() + &certificate;
    assert_eq!(load(&chain, &pem), Err(LoadError::WrongKey), "the order matters");
    assert_eq!(load(&certificate, &certificate), Err(LoadError::NoKey));
    assert_eq!(load(&certificate, &(pem.clone() + &pem)), Err(LoadError::SeveralKeys));
    assert_eq!(load(&certificate, "nonsense"), Err(LoadError::KeyForm));
    assert_eq!(load(&certificate, ""), Err(LoadError::KeyForm));
    assert_eq!(load(&pem, &pem), Err(LoadError::Certificates(TrustError::NoCertificate)));
    assert_eq!(load("nonsense", &pem), Err(LoadError::OwnCertificate(BadCertificate::Malformed)));
    let encrypted = pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(load(&certificate, &encrypted), Err(LoadError::Encrypted));
    let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMAA=\n-----END EC PRIVATE KEY-----\n";
    assert_eq!(load(&certificate, old), Err(LoadError::Encrypted));
    assert!(LoadError::Encrypted.to_string().contains("encrypted"));
    let none = lightseal_dtls::crypto::Provider::new("none");
    let refused = raw_key(&none, pem.as_bytes()).err();
    assert_eq!(refused, Some(LoadError::Key(PrivateKeyError::Unsupported)));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let dir = Dir::new("exposed");
    let end = End::self_signed(&params("end", &[]));
    let certificates = dir.file("pem", 0o644, end.certificate.pem());
    for mode in [0o640, 0o604, 0o644] {
        let key = dir.path("key");
        std::fs::write(&key, end.key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        for files in [KeyFiles::raw(&key), KeyFiles::x509(&key, &certificates)] {
            let said = files.load(&PROVIDER).unwrap_err().to_string();
            assert!(said.contains(&format!("chmod 600 {}", key.display())), "{said}");
        }
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        KeyFiles::x509(&key, &certificates).load(&PROVIDER).unwrap();
    }
}

#[test]
fn keys_are_read_again_when_they_change_and_kept_when_they_break() {
    let dir = Dir::new("keys");
    let (old, new) = (End::self_signed(&params("old", &[])), End::self_signed(&params("new", &[])));
    let key = dir.file("key", 0o600, old.key.serialize_pem());
    let certificates = dir.file("pem", 0o644, old.certificate.pem());
    let store = ReloadingKeys::open(&PROVIDER, [KeyFiles::x509(&key, &certificates)]).unwrap();
    assert_eq!(shown(&store), old.der());
    assert!(!store.reload(false).unwrap());
    assert!(store.reload(true).unwrap());
    // The key is replaced before its certificate.
    dir.file("key", 0o600, new.key.serialize_pem());
    let said = store.reload(false).unwrap_err().to_string();
    assert!(said.contains("for another key") && said.contains("pem: "), "{said}");
    assert!(!store.reload(false).unwrap(), "it is reported once");
    assert_eq!(shown(&store), old.der());
    dir.file("pem", 0o644, new.certificate.pem());
    assert!(store.reload(false).unwrap());
    assert_eq!(shown(&store), new.der());
    std::fs::remove_file(&key).unwrap();
    let said = store.reload(false).unwrap_err().to_string();
    assert!(said.starts_with(&key.display().to_string()), "{said}");
    assert_eq!(shown(&store), new.der());
    let gone = ReloadingKeys::open(&PROVIDER, [KeyFiles::raw(dir.path("none"))]);
    assert!(gone.unwrap_err().to_string().contains("none: "));
}

#[test]
fn several_keys_are_read_and_one_is_chosen_by_name() {
    let dir = Dir::new("names");
    let ends = ["a.example", "b.example"].map(|name| End::self_signed(&params(name, &[name])));
    let files = ["a", "b"].map(|name| {
        let end = &ends[usize::from(name == "b")];
        let key = dir.file(&format!("{name}.key"), 0o600, end.key.serialize_pem());
        KeyFiles::x509(key, dir.file(&format!("{name}.pem"), 0o644, end.certificate.pem()))
    });
    let store = ReloadingKeys::open(&PROVIDER, files).unwrap().only_known_names().unwrap();
    let entry = |name| {
        let mut offered = offered();
        offered.server_name = Some(name);
        store.choose(&offered).map(|key| key.entries()[0].clone())
    };
    assert_eq!(entry("b.example").as_deref(), Some(ends[1].der()));
    assert_eq!(entry("a.example").as_deref(), Some(ends[0].der()));
    assert_eq!(entry("c.example"), None);
}

fn accepts(verifier: &dyn CertificateVerifier, end: &End) -> Result<(), BadCertificate> {
    let chain = [end.der()];
    let mut presented = PresentedCertificate::new(X509, &chain);
    presented.from_client = true;
    check(verifier, &presented).map(drop)
}

/// Whether files were read, and what is wrong with others.
fn reloaded(verifier: &ReloadingVerifier) -> (bool, Vec<String>) {
    let reloaded = verifier.reload(false);
    (reloaded.changed, reloaded.failures.iter().map(ToString::to_string).collect())
}

#[test]
fn authorities_lists_and_pins_are_read_again_while_they_are_in_use() {
    let dir = Dir::new("trust");
    let (first, second) = (root("First"), root("Second"));
    let mut numbered = params("end", &[]);
    numbered.serial_number = Some(7.into());
    let (end, other) = (End::new(&numbered, &first), End::new(&params("other", &[]), &second));
    let pinned = End::self_signed(&params("pinned", &[]));
    let mut files = TrustFiles::default();
    files.authorities.push(dir.file("ca.pem", 0o644, first.pem()));
    files.revocation_lists.push(dir.file("ca.crl", 0o644, crl(&first, &[], 9)));
    files.accepted_keys.push(dir.file("pins", 0o644, format!("{}\n", SpkiHash([1; 32]))));
    let verifier = ReloadingVerifier::open(settings(), files.clone()).unwrap();
    assert_eq!(verifier.kinds(), [RAW, X509]);
    assert_eq!(accepts(&verifier, &end), Ok(()));
    assert_eq!(accepts(&verifier, &other), Err(BadCertificate::UnknownIssuer));
    assert_eq!(accepts(&verifier, &pinned), Err(BadCertificate::UnknownIssuer));
    assert_eq!(reloaded(&verifier), (false, vec![]));

    dir.file("ca.crl", 0o644, crl(&first, &[7], 9));
    assert_eq!(reloaded(&verifier), (true, vec![]));
    assert_eq!(accepts(&verifier, &end), Err(BadCertificate::Revoked));

    dir.file("pins", 0o644, format!("\n# sensors\n {} pinned.key\n", pinned.hash()));
    assert_eq!(reloaded(&verifier), (true, vec![]));
    assert_eq!(accepts(&verifier, &pinned), Ok(()));

    dir.file("pins", 0o644, format!("{}\nspki:12\n", pinned.hash()));
    let (changed, failures) = reloaded(&verifier);
    assert!(!changed && failures[0].contains("pins, line 2: "), "{failures:?}");
    assert_eq!(reloaded(&verifier), (false, vec![]), "it is reported once");
    assert_eq!(accepts(&verifier, &pinned), Ok(()));

    // What is broken remains as it was; the others take effect.
    dir.file("ca.pem", 0o644, "broken");
    dir.file("pins", 0o644, format!("{}\n", SpkiHash([1; 32])));
    let (changed, failures) = reloaded(&verifier);
    assert!(changed && failures.len() == 1 && failures[0].contains("ca.pem: "), "{failures:?}");
    assert_eq!(accepts(&verifier, &pinned), Err(BadCertificate::UnknownIssuer));
    assert_eq!(accepts(&verifier, &end), Err(BadCertificate::Revoked), "the authority remains");
    std::fs::remove_file(dir.path("ca.crl")).unwrap();
    dir.file("pins", 0o644, format!("{}\n", pinned.hash()));
    let (changed, failures) = reloaded(&verifier);
    assert!(changed && failures.len() == 1 && failures[0].contains("ca.crl: "), "{failures:?}");
    assert_eq!(accepts(&verifier, &pinned), Ok(()));
    assert_eq!(accepts(&verifier, &end), Err(BadCertificate::Revoked), "the list remains");
    assert_eq!(reloaded(&verifier), (false, vec![]), "it is reported once");

    // An empty file would lock all pinned peers out.
    dir.file("pins", 0o644, "# none\n");
    let (changed, failures) = reloaded(&verifier);
    assert!(!changed && failures[0].ends_with("pins: no key in it"), "{failures:?}");
    assert_eq!(accepts(&verifier, &pinned), Ok(()));

    dir.file("pins", 0o644, format!("{}\n", SpkiHash([1; 32])));
    dir.file("ca.pem", 0o644, second.pem());
    dir.file("ca.crl", 0o644, crl(&second, &[], 9));
    assert_eq!(reloaded(&verifier), (true, vec![]));
    assert_eq!(accepts(&verifier, &other), Ok(()));
    assert_eq!(accepts(&verifier, &end), Err(BadCertificate::UnknownIssuer));
    assert_eq!(accepts(&verifier, &pinned), Err(BadCertificate::UnknownIssuer));

    files.required_keys.push(dir.file("required", 0o644, format!("{}\n", end.hash())));
    let verifier = ReloadingVerifier::open(settings(), files).unwrap();
    assert_eq!(accepts(&verifier, &other), Err(BadCertificate::UnknownKey));
}

#[test]
fn peers_are_remembered_until_an_authority_is_missing_or_the_lists_change() {
    let dir = Dir::new("remembered");
    let (ca, other) = (root("Root"), root("Other"));
    let end = End::new(&params("end", &["a.example"]), &ca);
    let peer = PeerKey::new(end.hash().0, Some("a.example".into()));
    let pin = |number: u8| format!("{}\n", SpkiHash([number; 32]));
    let files = TrustFiles {
        authorities: vec![dir.file("ca.pem", 0o644, ca.pem())],
        revocation_lists: vec![dir.file("ca.crl", 0o644, crl(&ca, &[], 5))],
        accepted_keys: vec![dir.file("pins", 0o644, pin(1))],
        required_keys: vec![dir.file("required", 0o644, format!("{}\n", end.hash()))],
        ..TrustFiles::default()
    };
    let verifier = ReloadingVerifier::open(settings(), files).unwrap();
    let changes: [(&str, Vec<u8>, bool); 7] = [
        ("pins", pin(2).into(), true),
        ("ca.pem", (ca.pem() + &other.pem()).into(), true),
        ("required", format!("{}\n{}", end.hash(), pin(3)).into(), true),
        ("ca.pem", ca.pem().into(), false),
        ("ca.crl", crl(&ca, &[7], 5), false),
        ("ca.crl", crl(&ca, &[], 6), false),
        ("required", format!("{}\n", end.hash()).into(), false),
    ];
    for (number, (name, content, remembered)) in changes.into_iter().enumerate() {
        assert_eq!(accepts(&verifier, &end), Ok(()));
        assert!(verifier.still_accepts(&peer));
        dir.file(name, 0o644, content);
        assert_eq!(reloaded(&verifier), (true, vec![]));
        assert_eq!(verifier.still_accepts(&peer), remembered, "change {number} of {name}");
    }
    // What is missing stays missing, although nothing else changes.
    dir.file("ca.pem", 0o644, other.pem());
    assert_eq!(reloaded(&verifier), (true, vec![]));
    assert!(!verifier.still_accepts(&peer));
    dir.file("ca.pem", 0o644, ca.pem() + &other.pem());
    assert_eq!(reloaded(&verifier), (true, vec![]));
    assert!(!verifier.still_accepts(&peer), "nobody was remembered");
}

#[test]
fn a_verifier_and_keys_are_replaced_while_they_are_in_use() {
    let (first, second) = (root("First"), root("Second"));
    let ends = [&first, &second].map(|ca| End::new(&params("end", &[]), ca));
    let verifier = ReplaceableVerifier::new(settings().verifier(trusting(&first)));
    assert_eq!(ends.each_ref().map(|end| accepts(&verifier, end).is_ok()), [true, false]);
    verifier.replace(settings().verifier(trusting(&second)));
    assert_eq!(ends.each_ref().map(|end| accepts(&verifier, end).is_ok()), [false, true]);
    verifier.replace(settings().verifier(Trust::new()));
    assert_eq!(verifier.kinds(), [X509], "what was offered stays");
    assert_eq!(accepts(&verifier, &ends[0]), Err(BadCertificate::Unsupported));

    let raw = |end: &End| raw_key(&PROVIDER, end.key.serialized_der()).unwrap();
    let keys = ReplaceableKeys::new(raw(&ends[0]));
    assert_eq!((shown(&keys), keys.kinds()), (ends[0].key.subject_public_key_info(), vec![RAW]));
    keys.replace(raw(&ends[1]));
    assert_eq!(shown(&keys), ends[1].key.subject_public_key_info());
}

#[test]
fn the_system_clock_and_a_real_chain_agree() {
    // The one test that reads the clock: it accepts what is valid today.
    let today = time::OffsetDateTime::from(std::time::SystemTime::now());
    let ca = root("Root");
    let mut params = params("end", &[]);
    params.not_before = today - time::Duration::hours(1);
    params.not_after = today + time::Duration::hours(1);
    let end = End::new(&params, &ca);
    let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
    let settings =
        lightseal_pki::Settings::with_algorithms(algorithms, lightseal_pki::Clock::system());
    assert_eq!(client(&settings.verifier(trusting(&ca)), &[end.der()]).map(drop), Ok(()));
}

#[test]
fn a_missing_file_of_trust_is_named() {
    let dir = Dir::new("missing");
    let path = |name: &str| Vec::from([dir.path(name)]);
    let files = TrustFiles { authorities: path("none.pem"), ..TrustFiles::default() };
    let said = ReloadingVerifier::open(settings(), files).unwrap_err().to_string();
    assert!(said.contains("none.pem: "), "{said}");
}
