//! Whether a session may be resumed whose peer was verified before.

use crate::world::{
    Ca, DAY, End, NOW, RAW, ca_params, check, client, crl, days, intermediate, params, root,
    server, trusting,
};
use lightseal_dtls::{CertificateVerifier, PeerKey, PresentedCertificate};
use lightseal_pki::replace::ReplaceableVerifier;
use lightseal_pki::{Clock, Revocation, Settings, Trust};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const HOST: &str = "a.example";

/// Settings, and the time that their clock shows.
fn settings() -> (Settings, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(NOW));
    let shown = Arc::clone(&now);
    let clock = Clock::new(move || Some(shown.load(Ordering::Relaxed)));
    (Settings::with_algorithms(webpki::ALL_VERIFICATION_ALGS.iter().copied(), clock), now)
}

fn key(end: &End, name: Option<&str>) -> PeerKey {
    PeerKey::new(end.hash().0, name.map(ToOwned::to_owned))
}

/// A server with a certificate that is valid for 30 days.
fn end(ca: &Ca) -> End {
    End::new(&params("end", &[HOST]), ca)
}

#[test]
fn a_session_may_be_resumed_until_the_chain_expires() {
    let ca = root("Root");
    // The issuer expires before the end.
    let mut short = ca_params("Between");
    short.not_after = days(10);
    let between = intermediate(short, &ca);
    let far = intermediate(ca_params("Far"), &ca);
    for (issuer, valid_days) in [(&between, 10), (&far, 30)] {
        let end = end(issuer);
        let (settings, now) = settings();
        let verifier = settings.verifier(trusting(&ca));
        let peer = key(&end, Some(HOST));
        assert!(!verifier.still_accepts(&peer), "it was never verified");
        assert_eq!(server(&verifier, &[end.der(), issuer.der()], HOST), Ok(Some(HOST.into())));
        for (time, accepted) in [(0, true), (valid_days * DAY, true), (valid_days * DAY + 1, false)]
        {
            now.store(NOW + time, Ordering::Relaxed);
            assert_eq!(verifier.still_accepts(&peer), accepted, "{time}");
            assert_eq!(verifier.clone().still_accepts(&peer), accepted, "a clone");
            let verdict = server(&verifier, &[end.der(), issuer.der()], HOST);
            assert_eq!(verdict.is_ok(), accepted, "as a new handshake is");
        }
        now.store(0, Ordering::Relaxed);
        assert!(!verifier.still_accepts(&peer), "a clock that was never set");
    }
}

#[test]
fn only_the_key_with_the_name_that_was_verified_is_accepted() {
    let ca = root("Root");
    let (one, other) = (end(&ca), end(&ca));
    let verifier = settings().0.verifier(trusting(&ca));
    server(&verifier, &[one.der()], HOST).unwrap();
    // A chain that is refused leaves no trace.
    server(&verifier, &[other.der()], "b.example").unwrap_err();
    for peer in [key(&one, None), key(&one, Some("b.example")), key(&other, Some(HOST))] {
        assert!(!verifier.still_accepts(&peer), "{peer:?}");
    }
    assert!(verifier.still_accepts(&key(&one, Some(HOST))));
}

#[test]
fn another_verifier_knows_nobody() {
    let ca = root("Root");
    let end = end(&ca);
    let (settings, _) = settings();
    let verifier = settings.verifier(trusting(&ca));
    client(&verifier, &[end.der()]).unwrap();
    let peer = key(&end, Some(HOST));
    let replaceable = ReplaceableVerifier::new(verifier);
    assert!(replaceable.still_accepts(&peer));
    let revoked = crl(&ca, &[], 5);
    replaceable.replace(settings.verifier(trusting(&ca).with_revocation_lists(&revoked).unwrap()));
    assert!(!replaceable.still_accepts(&peer));
}

#[test]
fn a_list_that_expires_ends_sessions_unless_expired_lists_count() {
    let ca = root("Root");
    let end = end(&ca);
    let trust = trusting(&ca)
        .with_revocation_lists(&crl(&ca, &[], 5))
        .and_then(|trust| trust.with_revocation_lists(&crl(&root("Other"), &[], 9)))
        .unwrap();
    let mut relaxed = Revocation::default();
    relaxed.allow_expired_lists = true;
    for relax in [false, true] {
        let (mut settings, now) = settings();
        if relax {
            settings = settings.with_revocation(relaxed);
        }
        let verifier = settings.verifier(trust.clone());
        client(&verifier, &[end.der()]).unwrap();
        for (time, accepted) in [(5 * DAY, true), (5 * DAY + 1, relax), (30 * DAY + 1, false)] {
            now.store(NOW + time, Ordering::Relaxed);
            assert_eq!(verifier.still_accepts(&key(&end, Some(HOST))), accepted, "{time} {relax}");
        }
    }
}

#[test]
fn a_pinned_key_is_accepted_without_a_memory_or_a_clock() {
    let end = End::self_signed(&params("end", &[]));
    let trust = Trust::new().with_accepted_keys([end.hash()]);
    let algorithms = webpki::ALL_VERIFICATION_ALGS.iter().copied();
    let verifier = Settings::with_algorithms(algorithms, Clock::none()).verifier(trust);
    assert!(verifier.still_accepts(&key(&end, None)));
    let other = End::self_signed(&params("other", &[]));
    let spki = rcgen::PublicKeyData::subject_public_key_info(&other.key);
    check(&verifier, &PresentedCertificate::new(RAW, &[&spki])).unwrap_err();
    assert!(!verifier.still_accepts(&key(&other, None)));
}

#[test]
fn a_pin_does_not_make_up_for_a_chain_that_is_accepted_no_more() {
    let ca = root("Root");
    let end = end(&ca);
    let pinned = trusting(&ca).with_accepted_keys([end.hash()]);
    let verifier = settings().0.verifier(pinned);
    assert_eq!(client(&verifier, &[end.der()]), Ok(None), "the pin counts in a new handshake");
    assert!(verifier.still_accepts(&key(&end, None)));
    assert!(!verifier.still_accepts(&key(&end, Some(HOST))), "the chain was not verified");
}
