//! Measures the time for the AES-GCM of a frame with each provider, on one core.
//!
//! `cargo bench -p macsec-aws-lc [-- FILTER]` prints the best of 15 runs per line, in nanoseconds,
//! to seal and to open. In a gateway's datagrams the header is the text, and the rest of the frame
//! is associated data.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use lightseal_macsec::crypto::rustcrypto;
use std::hint::black_box;
use std::time::{Duration, Instant};

const RUNS: usize = 15;
const RUN: Duration = Duration::from_millis(10);
/// Lengths in bytes of the text and the associated data.
const SIZES: [(usize, usize); 6] =
    [(28, 68), (28, 1400), (28, 9000), (68, 28), (1400, 28), (9000, 28)];

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    for provider in [&rustcrypto::PROVIDER, &lightseal_macsec_aws_lc::PROVIDER] {
        for (bits, cipher) in
            [(128, (provider.aes_128)(&[7; 16])), (256, (provider.aes_256)(&[7; 32]))]
        {
            for (text_len, aad_len) in SIZES {
                let name =
                    format!("{} AES-{bits}-GCM text {text_len} aad {aad_len}", provider.name);
                if !name.contains(&filter) {
                    continue;
                }
                let (mut text, aad) = (vec![7; text_len], vec![9; aad_len]);
                let seal = best(|| {
                    black_box(cipher.seal(&[1; 12], black_box(&aad), black_box(&mut text)));
                });
                let tag = cipher.seal(&[2; 12], &aad, &mut text);
                let ciphertext = text.clone();
                let open = best(|| {
                    text.copy_from_slice(&ciphertext);
                    let opened = cipher.open(&[2; 12], black_box(&aad), black_box(&mut text), &tag);
                    opened.expect("the text was sealed with these inputs");
                });
                println!("{name:48} seal {seal:6.0}  open {open:6.0}");
            }
        }
    }
}

fn best(mut work: impl FnMut()) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let (start, mut done) = (Instant::now(), 0u32);
        while start.elapsed() < RUN {
            for _ in 0..64 {
                work();
            }
            done += 64;
        }
        start.elapsed().as_nanos() as f64 / f64::from(done)
    });
    runs.fold(f64::MAX, f64::min)
}
