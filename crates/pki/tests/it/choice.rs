//! The choice among several keys for a peer.

use crate::world::{End, P256, PROVIDER, RAW, X509, ca_params, intermediate, params, root};
use lightseal_dtls::codepoints::SignatureScheme;
use lightseal_dtls::{CertifiedKey, KeyStore, OfferedCertificates};
use lightseal_pki::{KeysByName, certified_key, raw_key};
use rcgen::{CertifiedIssuer, KeyPair};

fn with_chain(end: &End, issuers: &[&crate::world::Ca]) -> CertifiedKey {
    let issuers: String = issuers.iter().map(|issuer| issuer.pem()).collect();
    let chain = end.certificate.pem() + &issuers;
    let key = end.key.serialize_pem();
    certified_key(&PROVIDER, chain.as_bytes(), key.as_bytes()).unwrap()
}

fn named(names: &[&str]) -> CertifiedKey {
    with_chain(&End::self_signed(&params("end", names)), &[])
}

/// The position of the key that is chosen among `keys`.
fn chosen(
    store: &KeysByName,
    keys: &[CertifiedKey],
    offered: &OfferedCertificates<'_>,
) -> Option<usize> {
    let chosen = store.choose(offered)?;
    keys.iter().position(|key| key.entries() == chosen.entries())
}

fn wanting(name: &str) -> OfferedCertificates<'_> {
    let mut offered = OfferedCertificates::new(&[X509, RAW], &[P256]);
    offered.server_name = Some(name);
    offered
}

#[test]
fn a_certificate_is_chosen_by_its_exact_name_then_by_a_wildcard_then_by_order() {
    let keys = [
        named(&["first.example"]),
        named(&["*.b.example", "B.example"]),
        named(&["x.b.example", "*.c.example"]),
    ];
    let store = KeysByName::new(keys.clone());
    for (name, key) in [
        ("first.example", 0),
        ("b.example", 1),
        ("y.b.example", 1),
        ("X.B.EXAMPLE", 2),
        ("x.b.example.", 2),
        ("c.example", 0),
        ("z.c.example", 2),
        ("z.z.c.example", 0),
        ("other", 0),
        ("", 0),
    ] {
        assert_eq!(chosen(&store, &keys, &wanting(name)), Some(key), "{name}");
    }
    let nameless = OfferedCertificates::new(&[X509], &[P256]);
    assert_eq!(chosen(&store, &keys, &nameless), Some(0));
    let strict = store.only_known_names();
    assert_eq!(chosen(&strict, &keys, &wanting("z.z.c.example")), None);
    assert_eq!(chosen(&strict, &keys, &wanting("y.b.example")), Some(1));
    assert_eq!(chosen(&strict, &keys, &nameless), Some(0));
}

/// RFC 8446, section 4.4.2.2: a chain with other signatures is better than none.
#[test]
fn a_chain_is_chosen_by_the_schemes_of_its_signatures() {
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let ed25519 = CertifiedIssuer::self_signed(ca_params("Ed25519"), key).unwrap();
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let p384 = CertifiedIssuer::signed_by(ca_params("P-384"), key, &ed25519).unwrap();
    let of = |ca: &crate::world::Ca, issuers| {
        with_chain(&End::new(&params("end", &["a.example"]), ca), issuers)
    };
    // Signed with P-256; with Ed25519; with P-384 below Ed25519; by itself.
    let keys = [
        of(&root("P-256"), &[]),
        of(&ed25519, &[&ed25519]),
        of(&p384, &[&p384]),
        named(&["other.example"]),
    ];
    let store = KeysByName::new(keys.clone());
    let (ed25519, p384) = (SignatureScheme::ED25519, SignatureScheme::ECDSA_SECP384R1_SHA384);
    for (schemes, key) in [
        (&[][..], 0),
        (&[P256, ed25519], 0),
        (&[ed25519], 1),
        (&[p384], 3),
        (&[p384, ed25519], 1),
        (&[SignatureScheme::RSA_PKCS1_SHA256], 3),
    ] {
        let mut offered = OfferedCertificates::new(&[X509], &[P256]);
        offered.certificate_schemes = schemes;
        assert_eq!(chosen(&store, &keys, &offered), Some(key), "{schemes:?}");
    }
    // The name counts more, and the chain goes as it is.
    let mut offered = wanting("a.example");
    let only = [p384];
    offered.certificate_schemes = &only;
    assert_eq!(chosen(&store, &keys, &offered), Some(0));
}

#[test]
fn a_key_is_chosen_by_what_the_peer_accepts() {
    let raw = End::self_signed(&params("raw", &[]));
    let raw = raw_key(&PROVIDER, raw.key.serialize_pem().as_bytes()).unwrap();
    let keys = [named(&["a.example"]), raw];
    let store = KeysByName::new(keys.clone());
    assert_eq!(store.kinds(), [X509, RAW]);
    let with = |kinds, schemes| {
        let mut offered = OfferedCertificates::new(kinds, schemes);
        offered.server_name = Some("other.example");
        chosen(&store, &keys, &offered)
    };
    assert_eq!(with(&[RAW, X509], &[P256]), Some(0));
    assert_eq!(with(&[RAW], &[P256]), Some(1));
    assert_eq!(with(&[X509], &[P256]), Some(0));
    assert_eq!(with(&[X509, RAW], &[SignatureScheme::ED25519]), None);
    assert_eq!(with(&[], &[P256]), None);
    // A raw key has no name that could be another than the wanted one.
    let strict = store.clone().only_known_names();
    assert_eq!(chosen(&strict, &keys, &wanting("other.example")), Some(1));
    assert!(KeysByName::new([]).choose(&wanting("a.example")).is_none());
}

#[test]
fn a_certificate_is_chosen_by_the_authorities_that_the_peer_trusts() {
    let (first, second) = (root("First"), root("Second"));
    let between = intermediate(ca_params("Between"), &second);
    let ends = [
        End::new(&params("end", &["a.example"]), &first),
        End::new(&params("end", &["a.example"]), &between),
    ];
    let keys = [with_chain(&ends[0], &[]), with_chain(&ends[1], &[&between])];
    let store = KeysByName::new(keys.clone());
    let name = |common: &str| {
        let mut name = vec![0x30, 11 + common.len() as u8, 0x31, 9 + common.len() as u8];
        name.extend([0x30, 7 + common.len() as u8, 6, 3, 0x55, 4, 3, 0x0c, common.len() as u8]);
        name.extend(common.as_bytes());
        name
    };
    for (trusted, key) in [("First", 0), ("Second", 1), ("Between", 1), ("Third", 0)] {
        let authorities = [name(trusted)];
        let authorities = authorities.each_ref().map(|name| &name[..]);
        let mut offered = wanting("a.example");
        offered.authorities = &authorities;
        assert_eq!(chosen(&store, &keys, &offered), Some(key), "{trusted}");
    }
}
