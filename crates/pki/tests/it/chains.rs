//! Chains: every reason for which one is refused, beside a chain that is accepted.

use crate::world::{
    DAY, End, NOW, ca_params, client, crl, days, intermediate, params, root, server, settings,
    settings_at, trusting,
};
use lightseal_dtls::BadCertificate;
use lightseal_pki::clock::RELEASED;
use lightseal_pki::{Limits, Trust};
use rcgen::{
    BasicConstraints, CidrSubnet, CustomExtension, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    KeyPair, NameConstraints,
};

const HOST: &str = "a.example";

#[test]
fn a_chain_to_an_authority_is_accepted_in_both_roles() {
    let ca = root("Root");
    let between = intermediate(ca_params("Between"), &ca);
    let end = End::new(&params("end", &[HOST]), &between);
    let verifier = settings().verifier(trusting(&ca));
    let chain = [end.der(), &between.der()[..]];
    assert_eq!(server(&verifier, &chain, HOST), Ok(Some(HOST.into())));
    assert_eq!(client(&verifier, &chain), Ok(Some(HOST.into())));
    // The root may be sent as well, and the order of the issuers is of no importance.
    let chain = [end.der(), &ca.der()[..], &between.der()[..]];
    assert_eq!(server(&verifier, &chain, HOST), Ok(Some(HOST.into())));
    // An authority is also read from DER.
    let trust = Trust::new().with_authorities(ca.der()).unwrap();
    assert_eq!(server(&settings().verifier(trust), &chain, HOST), Ok(Some(HOST.into())));
}

#[test]
fn a_chain_to_another_authority_is_refused() {
    let (ca, other) = (root("Root"), root("Other"));
    let between = intermediate(ca_params("Between"), &ca);
    let end = End::new(&params("end", &[HOST]), &between);
    let verifier = settings().verifier(trusting(&ca));
    // The issuer is missing.
    assert_eq!(server(&verifier, &[end.der()], HOST), Err(BadCertificate::UnknownIssuer));
    let chain = [end.der(), &between.der()[..]];
    let refused = server(&settings().verifier(trusting(&other)), &chain, HOST);
    assert_eq!(refused, Err(BadCertificate::UnknownIssuer));
    let own = End::self_signed(&params("end", &[HOST]));
    assert_eq!(server(&verifier, &[own.der()], HOST), Err(BadCertificate::UnknownIssuer));
}

#[test]
fn a_signature_by_another_key_with_the_authoritys_name_is_refused() {
    let (ca, namesake) = (root("Root"), root("Root"));
    let end = End::new(&params("end", &[HOST]), &namesake);
    let verifier = settings().verifier(trusting(&ca));
    assert_eq!(server(&verifier, &[end.der()], HOST), Err(BadCertificate::Signature));
}

#[test]
fn every_changed_byte_and_every_cut_is_refused() {
    let ca = root("Root");
    let end = End::new(&params("end", &[HOST]), &ca);
    let verifier = settings().verifier(trusting(&ca));
    assert!(server(&verifier, &[end.der()], HOST).is_ok());
    for at in 0..end.der().len() {
        let mut changed = end.der().to_vec();
        changed[at] ^= 1 << (at % 8);
        assert!(server(&verifier, &[&changed], HOST).is_err(), "byte {at}");
        let cut = server(&verifier, &[&end.der()[..at]], HOST);
        assert_eq!(cut, Err(BadCertificate::Malformed), "{at} bytes");
    }
    let longer = [end.der(), &[0][..]].concat();
    assert_eq!(server(&verifier, &[&longer], HOST), Err(BadCertificate::Malformed));
}

#[test]
fn times_are_checked_with_the_clock() {
    let ca = root("Root");
    let end = End::new(&params("end", &[HOST]), &ca);
    let at = |now| server(&settings_at(now).verifier(trusting(&ca)), &[end.der()], HOST);
    assert_eq!(at(Some(NOW - 30 * DAY)), Ok(Some(HOST.into())));
    assert_eq!(at(Some(NOW - 30 * DAY - 1)), Err(BadCertificate::NotYetValid));
    assert_eq!(at(Some(NOW + 30 * DAY)), Ok(Some(HOST.into())));
    assert_eq!(at(Some(NOW + 30 * DAY + 1)), Err(BadCertificate::Expired));
    assert_eq!(at(None), Err(BadCertificate::NoClock));
    assert_eq!(at(Some(RELEASED)), Err(BadCertificate::NotYetValid));
    assert_eq!(at(Some(RELEASED - 1)), Err(BadCertificate::ClockBeforeBuild));
    assert_eq!(at(Some(0)), Err(BadCertificate::ClockBeforeBuild));
}

#[test]
fn an_expired_issuer_is_refused() {
    let ca = root("Root");
    let mut old = ca_params("Between");
    old.not_after = days(-1);
    let between = intermediate(old, &ca);
    let end = End::new(&params("end", &[HOST]), &between);
    let verifier = settings().verifier(trusting(&ca));
    let chain = [end.der(), &between.der()[..]];
    assert_eq!(server(&verifier, &chain, HOST), Err(BadCertificate::Expired));
}

#[test]
fn the_purpose_must_be_the_peers_role() {
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    let with = |purposes: &[ExtendedKeyUsagePurpose]| {
        let mut params = params("end", &[HOST]);
        params.extended_key_usages = purposes.to_vec();
        let end = End::new(&params, &ca);
        let chain = [end.der()];
        (server(&verifier, &chain, HOST).map(drop), client(&verifier, &chain).map(drop))
    };
    let wrong = Err(BadCertificate::WrongPurpose);
    assert_eq!(with(&[ExtendedKeyUsagePurpose::ServerAuth]), (Ok(()), wrong));
    assert_eq!(with(&[ExtendedKeyUsagePurpose::ClientAuth]), (wrong, Ok(())));
    assert_eq!(with(&[ExtendedKeyUsagePurpose::CodeSigning]), (wrong, wrong));
    assert_eq!(with(&[]), (Ok(()), Ok(())), "a certificate without purposes is for all");
}

#[test]
fn an_authority_is_no_peer_and_a_peer_no_authority() {
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    let mut authority = ca_params("end");
    authority.subject_alt_names = params("end", &[HOST]).subject_alt_names;
    let end = End::new(&authority, &ca);
    assert_eq!(server(&verifier, &[end.der()], HOST), Err(BadCertificate::WrongPurpose));
    let peer = intermediate(params("peer", &[HOST]), &ca);
    let end = End::new(&params("end", &[HOST]), &peer);
    let chain = [end.der(), &peer.der()[..]];
    assert_eq!(server(&verifier, &chain, HOST), Err(BadCertificate::Constraint));
}

#[test]
fn the_usage_of_keys_is_checked() {
    use rcgen::KeyUsagePurpose::{CrlSign, DigitalSignature, KeyAgreement, KeyCertSign};
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    let with = |of_issuer: &[_], of_peer: &[_]| {
        let mut issuer = ca_params("Between");
        issuer.key_usages = of_issuer.to_vec();
        let between = intermediate(issuer, &ca);
        let mut peer = params("end", &[HOST]);
        peer.key_usages = of_peer.to_vec();
        let end = End::new(&peer, &between);
        server(&verifier, &[end.der(), &between.der()[..]], HOST).map(drop)
    };
    assert_eq!(with(&[], &[]), Ok(()), "a certificate without usages is for all");
    assert_eq!(with(&[KeyCertSign], &[DigitalSignature, KeyAgreement]), Ok(()));
    assert_eq!(with(&[CrlSign], &[DigitalSignature]), Err(BadCertificate::Constraint));
    assert_eq!(with(&[KeyCertSign], &[KeyAgreement]), Err(BadCertificate::WrongPurpose));
}

#[test]
fn the_length_of_a_path_is_constrained() {
    for (allowed, verdict) in [(0, Err(BadCertificate::Constraint)), (1, Ok(Some(HOST.into())))] {
        let ca = root("Root");
        let mut constrained = ca_params("First");
        constrained.is_ca = IsCa::Ca(BasicConstraints::Constrained(allowed));
        let first = intermediate(constrained, &ca);
        let second = intermediate(ca_params("Second"), &first);
        let end = End::new(&params("end", &[HOST]), &second);
        let verifier = settings().verifier(trusting(&ca));
        let chain = [end.der(), &second.der()[..], &first.der()[..]];
        assert_eq!(server(&verifier, &chain, HOST), verdict, "path length {allowed}");
    }
}

#[test]
fn names_are_constrained() {
    let constraints = NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("example".into()),
            GeneralSubtree::IpAddress(CidrSubnet::V4([192, 0, 2, 0], [255, 255, 255, 0])),
        ],
        excluded_subtrees: vec![GeneralSubtree::DnsName("secret.example".into())],
    };
    let ca = root("Root");
    let mut constrained = ca_params("Between");
    constrained.name_constraints = Some(constraints);
    let between = intermediate(constrained, &ca);
    let verifier = settings().verifier(trusting(&ca));
    let with = |name: &str| {
        let end = End::new(&params("end", &[name]), &between);
        server(&verifier, &[end.der(), &between.der()[..]], name).map(drop)
    };
    assert_eq!(with("a.example"), Ok(()));
    assert_eq!(with("192.0.2.9"), Ok(()));
    for refused in ["secret.example", "x.secret.example", "a.example.org", "192.0.3.9"] {
        assert_eq!(with(refused), Err(BadCertificate::Constraint), "{refused}");
    }
}

#[test]
fn an_unknown_critical_extension_is_refused() {
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    for critical in [false, true] {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 9], vec![5, 0]);
        extension.set_criticality(critical);
        let mut params = params("end", &[HOST]);
        params.custom_extensions.push(extension);
        let end = End::new(&params, &ca);
        let verdict = server(&verifier, &[end.der()], HOST).map(drop);
        assert_eq!(verdict, if critical { Err(BadCertificate::Unsupported) } else { Ok(()) });
    }
}

#[test]
fn a_signature_algorithm_that_the_settings_lack_is_refused() {
    let ca = root("Root");
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let ed25519 = rcgen::CertifiedIssuer::signed_by(ca_params("Ed25519"), key, &ca).unwrap();
    let end = End::new(&params("end", &[HOST]), &ed25519);
    let chain = [end.der(), &ed25519.der()[..]];
    let all = settings().verifier(trusting(&ca));
    assert_eq!(server(&all, &chain, HOST).map(drop), Ok(()));
    let p256 = [webpki::aws_lc_rs::ECDSA_P256_SHA256];
    let clock = lightseal_pki::Clock::new(|| Some(NOW));
    let few = lightseal_pki::Settings::with_algorithms(p256, clock).verifier(trusting(&ca));
    assert_eq!(server(&few, &chain, HOST), Err(BadCertificate::Unsupported));
}

#[test]
fn a_chain_within_the_limits_is_accepted_and_one_beyond_is_refused() {
    let ca = root("Root");
    let mut issuers = vec![];
    for number in 0..6 {
        let issuer = issuers.last().unwrap_or(&ca);
        issuers.push(intermediate(ca_params(&format!("Issuer {number}")), issuer));
    }
    let end = End::new(&params("end", &[HOST]), issuers.last().unwrap());
    let chain: Vec<&[u8]> = [end.der()]
        .into_iter()
        .chain(issuers.iter().rev().map(|issuer| &issuer.der()[..]))
        .collect();
    let bytes = chain.iter().map(|entry| entry.len()).sum();
    let with = |certificates, bytes| {
        let mut limits = Limits::default();
        (limits.certificates, limits.bytes) = (certificates, bytes);
        let verifier = settings().with_limits(limits).verifier(trusting(&ca));
        server(&verifier, &chain, HOST).map(drop)
    };
    assert_eq!(with(7, bytes), Ok(()));
    assert_eq!(with(6, bytes), Err(BadCertificate::TooLong));
    assert_eq!(with(7, bytes - 1), Err(BadCertificate::TooLong));
    // A seventh issuer is beyond what the library searches.
    let seventh = intermediate(ca_params("Issuer 7"), issuers.last().unwrap());
    let end = End::new(&params("end", &[HOST]), &seventh);
    let chain: Vec<&[u8]> =
        [end.der(), &seventh.der()[..]].into_iter().chain(chain[1..].to_vec()).collect();
    let verifier = settings().verifier(trusting(&ca));
    assert_eq!(server(&verifier, &chain, HOST), Err(BadCertificate::TooLong));
}

#[test]
fn a_chain_made_to_take_long_is_refused() {
    // Issuers with one name and different keys: each could have issued each.
    let ca = root("Root");
    let same: Vec<_> = (0..9).map(|_| root("Same")).collect();
    let end = End::new(&params("end", &[HOST]), &root("Same"));
    let chain: Vec<&[u8]> =
        [end.der()].into_iter().chain(same.iter().map(|issuer| &issuer.der()[..])).collect();
    let verifier = settings().verifier(trusting(&ca));
    assert!(server(&verifier, &chain, HOST).is_err());
}

#[test]
fn bytes_that_are_no_certificate_are_refused() {
    let ca = root("Root");
    let verifier = settings().verifier(trusting(&ca));
    for bytes in [&b""[..], b"\x30", b"\x30\x00", b"certificate", &[0x30, 0x84, 255, 255, 255, 255]]
    {
        assert_eq!(server(&verifier, &[bytes], HOST), Err(BadCertificate::Malformed));
    }
    assert_eq!(server(&verifier, &[], HOST), Err(BadCertificate::Malformed));
    // A revocation list is no certificate either.
    assert!(server(&verifier, &[&crl(&ca, &[], 9)], HOST).is_err());
}
