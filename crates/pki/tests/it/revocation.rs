//! Revocation lists in all states.

use crate::world::{
    End, ca_params, client, crl, crl_params, days, intermediate, params, root, settings, trusting,
};
use lightseal_dtls::BadCertificate;
use lightseal_pki::{Revocation, Trust, TrustError, X509Verifier};
use rcgen::{CrlDistributionPoint, CrlIssuingDistributionPoint, SerialNumber};

/// A peer with the serial number 7, its issuer with the number 5, and the root.
struct Chain {
    ca: crate::world::Ca,
    between: crate::world::Ca,
    end: End,
}

impl Chain {
    fn new() -> Self {
        let ca = root("Root");
        let mut issuer = ca_params("Between");
        issuer.serial_number = Some(SerialNumber::from(5));
        let between = intermediate(issuer, &ca);
        let mut peer = params("end", &["a.example"]);
        peer.serial_number = Some(SerialNumber::from(7));
        let end = End::new(&peer, &between);
        Self { ca, between, end }
    }

    fn verdict(
        &self,
        revocation: Option<Revocation>,
        crls: &[&[u8]],
    ) -> Result<(), BadCertificate> {
        let mut settings = settings();
        if let Some(revocation) = revocation {
            settings = settings.with_revocation(revocation);
        }
        let mut trust = trusting(&self.ca);
        for crl in crls {
            trust = trust.with_revocation_lists(crl).unwrap();
        }
        let verifier: X509Verifier = settings.verifier(trust);
        client(&verifier, &[self.end.der(), self.between.der()]).map(drop)
    }
}

#[test]
fn a_revoked_peer_and_a_revoked_issuer_are_refused() {
    let chain = Chain::new();
    let (of_ca, of_between) = (crl(&chain.ca, &[], 9), crl(&chain.between, &[], 9));
    assert_eq!(chain.verdict(None, &[&of_ca, &of_between]), Ok(()));
    let revoked = Err(BadCertificate::Revoked);
    assert_eq!(chain.verdict(None, &[&of_ca, &crl(&chain.between, &[6, 7], 9)]), revoked);
    assert_eq!(chain.verdict(None, &[&crl(&chain.ca, &[5], 9), &of_between]), revoked);
    // Serial numbers are unique for one issuer only: another issuer may have given this number to
    // another certificate.
    assert_eq!(chain.verdict(None, &[&crl(&chain.ca, &[7], 9), &of_between]), Ok(()));
}

#[test]
fn the_newest_list_of_an_issuer_counts_in_whatever_order_lists_are_read() {
    let chain = Chain::new();
    let of_ca = crl(&chain.ca, &[], 9);
    let list = |revoked: &[u64], age: i64, number: u64| {
        let mut params = crl_params(revoked, 9);
        params.this_update = days(-age);
        params.crl_number = SerialNumber::from(number);
        params.signed_by(&chain.between).unwrap().der().to_vec()
    };
    // A newer one, and one of the same time with a greater number, which has more bytes.
    for newest in [list(&[7], 1, 1), list(&[7], 3, 256)] {
        let old = list(&[], 3, 255);
        for lists in [[&old, &newest], [&newest, &old]] {
            let verdict = chain.verdict(None, &[&of_ca, lists[0], lists[1]]);
            assert_eq!(verdict, Err(BadCertificate::Revoked));
        }
    }
    let (old, newest) = (list(&[7], 3, 1), list(&[], 1, 2));
    for lists in [[&old, &newest], [&newest, &old]] {
        assert_eq!(chain.verdict(None, &[&of_ca, lists[0], lists[1]]), Ok(()));
    }
}

#[test]
fn the_status_must_be_known_unless_the_settings_allow_otherwise() {
    let chain = Chain::new();
    let (of_ca, of_between) = (crl(&chain.ca, &[], 9), crl(&chain.between, &[], 9));
    let unknown = Err(BadCertificate::UnknownRevocation);
    assert_eq!(chain.verdict(None, &[]), Ok(()), "nothing is looked up");
    assert_eq!(chain.verdict(Some(Revocation::default()), &[]), unknown);
    assert_eq!(chain.verdict(None, &[&of_ca]), unknown);
    assert_eq!(chain.verdict(None, &[&of_between]), unknown);
    let mut only_peer = Revocation::default();
    only_peer.only_peer = true;
    assert_eq!(chain.verdict(Some(only_peer), &[&of_between]), Ok(()));
    assert_eq!(chain.verdict(Some(only_peer), &[&of_ca]), unknown);
    let mut allowed = Revocation::default();
    allowed.allow_unknown = true;
    assert_eq!(chain.verdict(Some(allowed), &[]), Ok(()));
    assert_eq!(chain.verdict(Some(allowed), &[&of_ca]), Ok(()));
    let revoked = chain.verdict(Some(allowed), &[&crl(&chain.between, &[7], 9)]);
    assert_eq!(revoked, Err(BadCertificate::Revoked));
}

#[test]
fn a_list_after_its_time_says_nothing_unless_the_settings_allow_it() {
    let chain = Chain::new();
    let of_ca = crl(&chain.ca, &[], 9);
    let old = crl(&chain.between, &[], -1);
    let unknown = Err(BadCertificate::UnknownRevocation);
    assert_eq!(chain.verdict(None, &[&of_ca, &old]), unknown);
    let mut allowed = Revocation::default();
    allowed.allow_expired_lists = true;
    assert_eq!(chain.verdict(Some(allowed), &[&of_ca, &old]), Ok(()));
    let revoked = chain.verdict(Some(allowed), &[&of_ca, &crl(&chain.between, &[7], -1)]);
    assert_eq!(revoked, Err(BadCertificate::Revoked));
}

#[test]
fn a_list_of_one_distribution_point_says_nothing_about_other_certificates() {
    let (ca, point) = (root("Root"), "http://crl.example/1");
    let list = |revoked: &[u64], of_point: bool| {
        let mut params = crl_params(revoked, 9);
        if of_point {
            params.issuing_distribution_point = Some(CrlIssuingDistributionPoint {
                distribution_point: CrlDistributionPoint { uris: vec![point.into()] },
                scope: None,
            });
        }
        params.signed_by(&ca).unwrap().der().to_vec()
    };
    let verdict = |named: bool, lists: &[Vec<u8>]| {
        let mut peer = params("end", &["a.example"]);
        peer.serial_number = Some(SerialNumber::from(7));
        if named {
            let uris = vec![point.into()];
            peer.crl_distribution_points.push(CrlDistributionPoint { uris });
        }
        let end = End::new(&peer, &ca);
        let mut trust = trusting(&ca);
        for list in lists {
            trust = trust.with_revocation_lists(list).unwrap();
        }
        client(&settings().verifier(trust), &[end.der()]).map(drop)
    };
    let unknown = Err(BadCertificate::UnknownRevocation);
    assert_eq!(verdict(true, &[list(&[], true)]), Ok(()));
    assert_eq!(verdict(true, &[list(&[7], true)]), Err(BadCertificate::Revoked));
    assert_eq!(verdict(false, &[list(&[], true)]), unknown);
    assert_eq!(verdict(false, &[list(&[], false)]), Ok(()));
    // The whole list counts, in whatever order the lists are loaded.
    let revoked = Err(BadCertificate::Revoked);
    assert_eq!(verdict(false, &[list(&[], true), list(&[7], false)]), revoked);
    assert_eq!(verdict(false, &[list(&[7], false), list(&[], true)]), revoked);
}

#[test]
fn a_list_signed_by_another_key_says_nothing() {
    let chain = Chain::new();
    let of_ca = crl(&chain.ca, &[], 9);
    let forged = crl(&intermediate(ca_params("Between"), &chain.ca), &[], 9);
    let refused = chain.verdict(None, &[&of_ca, &forged]);
    assert_eq!(refused, Err(BadCertificate::UnknownRevocation));
}

#[test]
fn an_issuer_that_may_not_sign_lists_has_none() {
    let ca = root("Root");
    let mut issuer = ca_params("Between");
    issuer.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let between = intermediate(issuer.clone(), &ca);
    let end = End::new(&params("end", &["a.example"]), &between);
    // rcgen refuses to sign a list for an authority that may not sign lists. Therefore the key
    // signs it as an authority that may.
    issuer.key_usages.push(rcgen::KeyUsagePurpose::CrlSign);
    let key = rcgen::KeyPair::try_from(between.key().serialized_der()).unwrap();
    let same = rcgen::CertifiedIssuer::signed_by(issuer, key, &ca).unwrap();
    let trust = trusting(&ca).with_revocation_lists(&crl(&ca, &[], 9)).unwrap();
    let verifier = settings().verifier(trust.with_revocation_lists(&crl(&same, &[], 9)).unwrap());
    let refused = client(&verifier, &[end.der(), between.der()]);
    assert_eq!(refused, Err(BadCertificate::UnknownRevocation));
    assert_eq!(client(&verifier, &[end.der(), same.der()]).map(drop), Ok(()));
}

#[test]
fn what_is_no_list_is_named_with_its_number() {
    let ca = root("Root");
    let list = crl(&ca, &[], 9);
    let wrong = |bytes: &[u8]| Trust::new().with_revocation_lists(bytes).unwrap_err();
    assert_eq!(wrong(&ca.der()[..]), TrustError::RevocationList(1));
    assert_eq!(wrong(ca.pem().as_bytes()), TrustError::NoRevocationList);
    assert_eq!(wrong(&list[..list.len() - 1]), TrustError::RevocationList(1));
    let trust = |bytes: &[u8]| Trust::new().with_authorities(bytes).unwrap_err();
    assert_eq!(trust(&list), TrustError::Certificate(1));
    assert_eq!(trust(b""), TrustError::Certificate(1));
    assert_eq!(trust(b"-----BEGIN X-----\n-----END X-----\n"), TrustError::NoCertificate);
    // The line ends are those of the system.
    let pem = ca.pem().replace('\r', "");
    let broken = pem.replace("-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n*");
    assert_eq!(trust(broken.as_bytes()), TrustError::Unreadable);
    let second =
        format!("{}-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", ca.pem());
    assert_eq!(trust(second.as_bytes()), TrustError::Certificate(2));
}
