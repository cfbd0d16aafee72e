//! Seals and opens records of application data and nothing else, so that callgrind can count the
//! instructions.
//!
//! Usage: `records SCHEME RECORDS BYTES`, such as `records r2d2:50 10000 30`.

use lightseal_core::Reader;
use lightseal_dtls::Scheme;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::receive_buffer::Received;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, ReceiveBuffer, ReceiveEpoch, SendEpoch, UnifiedHeader};
use lightseal_dtls::stats::ReceiveStats;
use std::process::ExitCode;

/// Seals and opens `records` data records of `bytes` bytes; returns the number delivered.
fn run(scheme: Scheme, records: usize, bytes: usize) -> usize {
    let suite = rustcrypto::PROVIDER
        .suite(CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256)
        .expect("the provider has it");
    let secret = TrafficSecret::new(&Sha256, &[0x42; 32]);
    let mut send = SendEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
    let mut receive = ReceiveEpoch::new(APPLICATION_EPOCH, suite, scheme, &secret);
    let (mut held, mut stats) = (ReceiveBuffer::new(1 << 16), ReceiveStats::default());
    let payload = vec![0x55; bytes];
    let mut buf = vec![0; bytes + 64];
    let shape = HeaderFormat { number: NumberLength::One, last: true };
    let mut delivered = 0;
    for _ in 0..records {
        let kind = ContentType::APPLICATION_DATA;
        let sealed = send
            .seal(&mut buf, kind, shape, |w| w.bytes(&payload))
            .expect("room and numbers are enough");
        let record = &mut buf[..sealed.len];
        let header = UnifiedHeader::read(&mut Reader::new(record), 0).expect("just sealed");
        // Data with a tag of its own is delivered as the connection does it.
        let opened = receive.open(header, record, &mut held);
        stats.count(&opened.outcomes);
        if let Some(inner) = opened.inner
            && let Some(slot) = held.hold(inner.content)
        {
            stats.delivered += 1;
            stats.delivered_bytes += held.deliver(slot) as u64;
        }
        while let Some(received) = held.next_ready() {
            if let Received::Data(slot) = received {
                delivered += 1;
                held.release(slot);
            }
        }
    }
    delivered
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match &arguments[..] {
        [scheme, records, bytes] => scheme
            .parse()
            .ok()
            .zip(records.parse().ok())
            .zip(bytes.parse().ok().filter(|bytes| *bytes <= 1 << 14)),
        _ => None,
    };
    let Some(((scheme, records), bytes)) = parsed else {
        eprintln!(
            "usage: records off|agg:N|r2d2:O|sliding:O|agg:N+check|r2d2:O+check RECORDS BYTES"
        );
        return ExitCode::from(2);
    };
    println!("{} of {records} delivered", run(scheme, records, bytes));
    ExitCode::SUCCESS
}
