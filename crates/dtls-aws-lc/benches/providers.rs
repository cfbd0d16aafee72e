//! The cost of one record and of one key exchange under each provider, on one core.
//!
//! `cargo bench -p dtls-aws-lc [-- FILTER]`. Each line is the best of 15 runs, in nanoseconds, for
//! the work of both ends: a record sealed and opened, or an exchange started and completed.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use lightseal_core::Random;
use lightseal_dtls::crypto::{Hash, Keying, Provider, Record, Sha256, TrafficSecret, rustcrypto};
use std::hint::black_box;
use std::time::{Duration, Instant};

const RUNS: usize = 15;
const RUN: Duration = Duration::from_millis(10);
const SIZES: [usize; 4] = [16, 64, 256, 1200];
/// A unified header with a 16-bit record number and a length.
const HEADER: [u8; 5] = [0x2f, 0, 1, 0, 17];

/// Epoch and sequence number, type, version, length.
const HEADER_12: [u8; 13] = [0, 1, 0, 0, 0, 0, 0, 5, 23, 0xfe, 0xfd, 0, 16];

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    hashes(&Sha256, "RustCrypto SHA-256", &filter);
    hashes(&lightseal_dtls_aws_lc::Sha256, "AWS-LC SHA-256", &filter);
    for provider in [&rustcrypto::PROVIDER, &lightseal_dtls_aws_lc::PROVIDER] {
        records(provider, &filter);
        records_12(provider, &filter);
        exchanges(provider, &filter);
    }
}

fn measure(filter: &str, name: &str, mut work: impl FnMut()) {
    if !name.contains(filter) {
        return;
    }
    let best = (0..RUNS).map(|_| {
        let (start, mut done) = (Instant::now(), 0u32);
        while start.elapsed() < RUN {
            for _ in 0..64 {
                work();
            }
            done += 64;
        }
        start.elapsed().as_nanos() as f64 / f64::from(done)
    });
    println!("{name:64} {:10.0}", best.fold(f64::MAX, f64::min));
}

/// The hash operations of a handshake.
fn hashes(hash: &'static dyn Hash, name: &str, filter: &str) {
    let mut out = [0; 32];
    for size in [64, 512] {
        let message = vec![7; size];
        measure(filter, &format!("{name} digest {size}"), || {
            hash.digest(&[black_box(&message)], &mut out);
        });
    }
    measure(filter, &format!("{name} HMAC 32"), || {
        hash.hmac(black_box(&[1; 32]), &[&[2; 32]], &mut out);
    });
    measure(filter, &format!("{name} HKDF of three keys"), || {
        let keys = TrafficSecret::new(hash, black_box(&[1; 32])).derivation();
        ["key", "iv", "sn"].iter().for_each(|label| keys.expand(label, &[], &mut out[..16]));
        black_box(&out);
    });
    measure(filter, &format!("{name} running, 128 and 64, two values"), || {
        let mut running = hash.start();
        running.update(black_box(&[3; 128]));
        running.value(&mut out);
        running.update(&[4; 64]);
        running.value(&mut out);
        black_box(&out);
    });
}

fn records(provider: &Provider, filter: &str) {
    let secret = TrafficSecret::new(&Sha256, &[3; 32]);
    for suite in provider.suites {
        let name = format!("{} {}", provider.name, suite.name);
        let keys = suite.keying.plain(&secret.derivation());
        let mut number = 0;
        for size in SIZES {
            let mut content = vec![7; size + 1];
            let mut tag = vec![0; suite.tag_len];
            measure(filter, &format!("{name} {size}"), || {
                number += 1;
                let record = Record { number, header: &HEADER };
                keys.seal(record, black_box(&mut content), &mut tag);
                keys.open(record, black_box(&mut content), &tag).expect("just sealed");
            });
        }
        measure(filter, &format!("{name} mask, twice"), || {
            black_box((keys.mask(black_box(&[1; 16])), keys.mask(black_box(&[2; 16]))));
        });
        measure(filter, &format!("{name} keys of an epoch"), || {
            black_box(suite.keying.plain(&secret.derivation()));
        });
        let Keying::Prf { aggregated, .. } = suite.keying else { continue };
        let keys = aggregated(&secret.derivation(), [1, 16, 0]);
        for size in SIZES {
            let mut content = vec![23; size + 1];
            measure(filter, &format!("{name} aggregated {size}"), || {
                number += 1;
                let record = Record { number, header: &HEADER };
                let state = keys.seal(record, black_box(&mut content));
                black_box(keys.block(&state, 0));
                let opened = keys.open(record, black_box(&mut content), 0).expect("long enough");
                black_box(keys.block(&opened.state, 0));
            });
        }
    }
}

fn records_12(provider: &Provider, filter: &str) {
    for suite in provider.suites_12 {
        let name = format!("{} {}", provider.name, suite.name);
        let make = || (suite.aead)(&[3; 32][..suite.key_len], &[4; 12][..suite.fixed_iv_len]);
        let keys = make();
        let mut number = 1 << 48;
        for size in SIZES {
            let mut content = vec![7; size];
            let mut tag = vec![0; suite.tag_len];
            measure(filter, &format!("{name} {size}"), || {
                number += 1;
                let record = Record { number, header: &HEADER_12 };
                keys.seal(record, black_box(&mut content), &mut tag);
                keys.open(record, black_box(&mut content), &tag).expect("just sealed");
            });
        }
        measure(filter, &format!("{name} keys of a direction"), || {
            black_box(make());
        });
    }
}

fn exchanges(provider: &Provider, filter: &str) {
    let mut rng = Random::insecure(1);
    for group in provider.groups {
        let peer = group.start(&mut rng).public_key().to_vec();
        measure(filter, &format!("{} {}", provider.name, group.name()), || {
            group.start(&mut rng).complete(&peer).map(black_box).expect("a valid share");
        });
    }
}
