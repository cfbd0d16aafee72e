//! Pinned keys in place of authorities and besides them, and raw public keys.

use crate::world::{
    DAY, End, NOW, RAW, X509, ca_params, check, client, intermediate, params, root, server,
    settings, settings_at, trusting,
};
use lightseal_dtls::{BadCertificate, CertificateVerifier, PresentedCertificate};
use lightseal_pki::{Clock, Settings, SpkiHash, Trust};
use rcgen::PublicKeyData;

const HOST: &str = "a.example";

#[test]
fn a_pinned_key_is_accepted_raw_and_in_any_certificate_without_a_clock() {
    let (end, other) =
        (End::self_signed(&params("end", &[])), End::self_signed(&params("other", &[])));
    let trust = Trust::new().with_accepted_keys([end.hash()]);
    for now in [None, Some(0), Some(NOW), Some(NOW + 1000 * DAY)] {
        let verifier = settings_at(now).verifier(trust.clone());
        assert_eq!(verifier.kinds(), [RAW, X509]);
        assert_eq!(server(&verifier, &[end.der()], HOST), Ok(None));
        assert_eq!(client(&verifier, &[end.der()]), Ok(None));
        let spki = end.key.subject_public_key_info();
        let raw = |spki: &[u8]| check(&verifier, &PresentedCertificate::new(RAW, &[spki]));
        assert_eq!(raw(&spki), Ok(None));
        assert_eq!(raw(&other.key.subject_public_key_info()), Err(BadCertificate::UnknownKey));
        assert_eq!(raw(&[&spki[..], b"x"].concat()), Err(BadCertificate::UnknownKey));
        assert_eq!(raw(b""), Err(BadCertificate::UnknownKey));
        let two = [&spki[..], &spki[..]];
        let two = check(&verifier, &PresentedCertificate::new(RAW, &two));
        assert_eq!(two, Err(BadCertificate::Malformed));
    }
    let verifier = settings().verifier(trust);
    assert_eq!(client(&verifier, &[other.der()]), Err(BadCertificate::UnknownIssuer));
    // A pinned key that is not the peer's own, which anybody could send along.
    let chain = [other.der(), end.der()];
    assert_eq!(client(&verifier, &chain), Err(BadCertificate::UnknownIssuer));
}

#[test]
fn authorities_and_raw_keys_are_accepted_by_one_verifier() {
    let ca = root("Root");
    let certified = End::new(&params("end", &[HOST]), &ca);
    let raw = End::self_signed(&params("raw", &[]));
    let verifier = settings().verifier(trusting(&ca).with_accepted_keys([raw.hash()]));
    assert_eq!(server(&verifier, &[certified.der()], HOST), Ok(Some(HOST.into())));
    let spki = raw.key.subject_public_key_info();
    assert_eq!(check(&verifier, &PresentedCertificate::new(RAW, &[&spki])), Ok(None));
    // What an authority certified is not accepted as a raw key.
    let spki = certified.key.subject_public_key_info();
    let refused = check(&verifier, &PresentedCertificate::new(RAW, &[&spki]));
    assert_eq!(refused, Err(BadCertificate::UnknownKey));
}

#[test]
fn only_kinds_that_are_offered_are_accepted() {
    let end = End::self_signed(&params("end", &[]));
    let pinned = Trust::new().with_accepted_keys([end.hash()]);
    let verifier = settings().verifier(pinned).with_kinds([RAW]);
    assert_eq!(verifier.kinds(), [RAW]);
    assert_eq!(client(&verifier, &[end.der()]), Err(BadCertificate::Unsupported));
    let verifier = settings().verifier(trusting(&root("Root")));
    assert_eq!(verifier.kinds(), [X509]);
    let spki = end.key.subject_public_key_info();
    let refused = check(&verifier, &PresentedCertificate::new(RAW, &[&spki]));
    assert_eq!(refused, Err(BadCertificate::Unsupported));
    assert!(settings().verifier(Trust::new()).kinds().is_empty());
}

#[test]
fn a_required_key_may_be_anywhere_in_the_path_but_must_be_there() {
    let ca = root("Root");
    let between = intermediate(ca_params("Between"), &ca);
    let end = End::new(&params("end", &[HOST]), &between);
    let unused = root("Unused");
    let chain = [end.der(), &between.der()[..], &unused.der()[..]];
    let with = |keys: &[SpkiHash]| {
        let trust = trusting(&ca).with_required_keys(keys.iter().copied());
        server(&settings().verifier(trust), &chain, HOST).map(drop)
    };
    let hash = |ca: &crate::world::Ca| SpkiHash::of(&ca.key().subject_public_key_info());
    for key in [end.hash(), hash(&between), hash(&ca)] {
        assert_eq!(with(&[key]), Ok(()));
        assert_eq!(with(&[SpkiHash([0; 32]), key]), Ok(()));
    }
    // A certificate that was sent and is not in the path does not count.
    assert_eq!(with(&[hash(&unused)]), Err(BadCertificate::UnknownKey));
    // A required key does not stand for an authority.
    let trust = trusting(&unused).with_required_keys([end.hash()]);
    let refused = server(&settings().verifier(trust), &chain, HOST);
    assert_eq!(refused, Err(BadCertificate::UnknownIssuer));
}

#[test]
fn the_authorities_are_named_to_peers() {
    let (first, second) = (root("First"), root("Second"));
    let trust = trusting(&first).with_authorities(second.pem().as_bytes()).unwrap();
    let verifier = settings().verifier(trust.with_authorities(first.der()).unwrap());
    let names = verifier.authorities();
    assert_eq!(names.len(), 2, "the same authority twice is one");
    // SEQUENCE { SET { SEQUENCE { commonName, UTF8String } } }
    let first = [&b"\x30\x10\x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x0c\x05"[..], b"First"].concat();
    assert_eq!(names[0], first);
}

#[test]
fn a_provider_without_signatures_still_accepts_pinned_keys() {
    let end = End::self_signed(&params("end", &[]));
    let none = lightseal_dtls::crypto::Provider::new("none");
    let trust = Trust::new().with_accepted_keys([end.hash()]);
    let verifier = Settings::new(&none, Clock::none()).verifier(trust);
    assert_eq!(client(&verifier, &[end.der()]), Ok(None));
}
