//! Why tags of GCM are never aggregated: a forgery, and its failure against tags that are outputs
//! of a pseudorandom function.

use lightseal_core::Random;
use lightseal_dtls::crypto::dangerous::AES_128_GCM_AGGREGATED;
use lightseal_dtls::crypto::rustcrypto::{AES_128_CCM, AES_128_CTR_LIGHTMAC, PROVIDER};
use lightseal_dtls::crypto::{
    Block, CipherSuite, Keying, PrfProtection, Provider, Record, Sha256, TrafficSecret,
};

const ROUNDS: usize = 300;
const HEADER: [u8; 2] = [0x2f, 7];

fn keys(suite: &CipherSuite, rng: &mut Random) -> Box<dyn PrfProtection> {
    match suite.keying {
        Keying::Prf { aggregated, .. } => {
            let secret = TrafficSecret::new(&Sha256, &rng.array::<32>());
            aggregated(&secret.derivation(), [1, 2, 0])
        }
        _ => panic!("{} has no aggregated tags", suite.name),
    }
}

/// The aggregate over records 0 and 1 that a receiver computes.
fn aggregate(keys: &dyn PrfProtection, bodies: &[Vec<u8>; 2]) -> Block {
    let mut sum = [0; 16];
    for (number, body) in (0..).zip(bodies) {
        let record = Record { number, header: &HEADER };
        let state = keys.open(record, &mut body.clone(), 0).expect("application data").state;
        sum.iter_mut().zip(keys.block(&state, 0)).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

/// The number of pairs of records, out of [`ROUNDS`], that still verify after `attack`.
fn forgeries(suite: &CipherSuite, attack: fn(&mut [Vec<u8>; 2], &mut Random)) -> usize {
    let mut rng = Random::insecure(1);
    (0..ROUNDS)
        .filter(|_| {
            let keys = keys(suite, &mut rng);
            let len = 20 + rng.below(60) as usize;
            let mut bodies = [0, 1].map(|number| {
                let mut content = vec![23; len];
                rng.fill(&mut content[1..]);
                let _ = keys.seal(Record { number, header: &HEADER }, &mut content);
                content
            });
            let genuine = aggregate(&*keys, &bodies);
            let before = bodies.clone();
            attack(&mut bodies, &mut rng);
            assert_ne!(bodies, before, "the attack changes something");
            aggregate(&*keys, &bodies) == genuine
        })
        .count()
}

/// Flips one bit at the same place of both records, after the content type.
fn flip_both(bodies: &mut [Vec<u8>; 2], rng: &mut Random) {
    let at = 1 + rng.below(bodies[0].len() as u64 - 1) as usize;
    let bit = 1 << rng.below(8);
    bodies.iter_mut().for_each(|body| body[at] ^= bit);
}

/// Swaps the bodies of the two records after the content type.
fn swap(bodies: &mut [Vec<u8>; 2], _: &mut Random) {
    let [one, other] = bodies;
    one[1..].swap_with_slice(&mut other[1..]);
}

#[test]
fn gcm_aggregates_are_forged_without_a_key() {
    assert_eq!(forgeries(&AES_128_GCM_AGGREGATED, flip_both), ROUNDS);
    assert_eq!(forgeries(&AES_128_GCM_AGGREGATED, swap), ROUNDS);
}

#[test]
fn aggregates_of_pseudorandom_functions_are_not() {
    for suite in [&AES_128_CCM, &AES_128_CTR_LIGHTMAC] {
        assert_eq!(forgeries(suite, flip_both), 0, "{}", suite.name);
        assert_eq!(forgeries(suite, swap), 0, "{}", suite.name);
    }
}

#[test]
fn it_is_in_no_provider_and_computes_what_it_says() {
    assert!(PROVIDER.suite(AES_128_GCM_AGGREGATED.id).is_none());
    static ALONE: Provider = PROVIDER.with_suites(&[&AES_128_GCM_AGGREGATED]);
    assert_eq!(ALONE.self_test(), Ok(()));
}
