//! Chains that are compressed.

use crate::world::{ca_params, intermediate, params, root};
use lightseal_dtls::CertificateCompression;
use lightseal_pki::Zlib;
use rcgen::KeyPair;

/// A certificate and that of the authority which issued it, one after the other.
fn chain() -> Vec<u8> {
    let issuer = intermediate(ca_params("plant 7 of Example Industries"), &root("Example root"));
    let key = KeyPair::generate().unwrap();
    let leaf = params("pump-12", &["pump-12.plant-7.example"]).signed_by(&key, &issuer).unwrap();
    [&leaf.der()[..], issuer.der()].concat()
}

#[test]
fn a_chain_becomes_shorter_and_comes_back_whole() {
    let chain = chain();
    let compressed = Zlib.compress(&chain).unwrap();
    assert!(compressed.len() < chain.len() * 9 / 10, "{} of {}", compressed.len(), chain.len());
    let mut back = vec![0; chain.len()];
    assert!(Zlib.decompress(&compressed, &mut back));
    assert_eq!(back, chain);
}

#[test]
fn the_length_is_exact_and_every_byte_counts() {
    let chain = chain();
    let compressed = Zlib.compress(&chain).unwrap();
    let decompresses = |compressed: &[u8], len| Zlib.decompress(compressed, &mut vec![0; len]);
    assert!(!decompresses(&compressed, chain.len() - 1));
    assert!(!decompresses(&compressed, chain.len() + 1));
    assert!(!decompresses(&compressed, 0));
    assert!((0..compressed.len()).all(|cut| !decompresses(&compressed[..cut], chain.len())));
    assert!(!decompresses(&[&compressed[..], &[0]].concat(), chain.len()), "a byte follows");
    for at in 0..compressed.len() {
        let mut damaged = compressed.clone();
        damaged[at] ^= 1;
        let mut back = vec![0; chain.len()];
        // The bits of zlib's header that state the effort of the sender change nothing.
        assert!(!Zlib.decompress(&damaged, &mut back) || back == chain, "byte {at}");
    }
    // A few bytes that stand for a million.
    let bomb = Zlib.compress(&vec![0; 1 << 20]).unwrap();
    assert!(bomb.len() < 2000 && !decompresses(&bomb, 16_384));
}
