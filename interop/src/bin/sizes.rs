//! Prints the bytes and datagrams of each kind of handshake beside those of wolfSSL and OpenSSL, or
//! writes them as a page of the documentation.

use clap::Parser;
use interop::sizes::{self, Row};
use interop::{openssl_race, wolfssl};
use lightseal_dtls::ProtocolVersion;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carries out each kind of handshake between two ends of the same implementation in this process,
/// and counts the datagrams and their bytes of UDP payload.
#[derive(Parser)]
struct Arguments {
    /// Number of handshakes of each kind; the one with the median of the bytes is printed.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    handshakes: u32,
    /// Print the sizes as JSON.
    #[arg(long)]
    json: bool,
    /// Write the tables to this file (docs/handshake-sizes.md).
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let rows = sizes::rows(arguments.handshakes as usize);
    if arguments.json {
        println!("{}", sizes::json(&rows));
    } else if let Some(file) = &arguments.write {
        if let Err(error) = std::fs::write(file, page(&rows)) {
            eprintln!("sizes: {}: {error}", file.display());
            return ExitCode::from(2);
        }
    } else {
        print!("{}", tables(&rows));
    }
    ExitCode::SUCCESS
}

/// The page of the documentation.
fn page(rows: &[Row]) -> String {
    format!(
        "# What handshakes send\n\n\
         Bytes of UDP payload and number of datagrams, both directions together, of each kind of\n\
         handshake without loss, and until nothing more is sent: acknowledgements and a ticket count.\n\
         Each implementation meets itself in one process. Lightseal has wolfSSL's settings: one suite,\n\
         one group, the same certificates, server name, cookie or none, and datagrams of at most 1400\n\
         B. The last column has Lightseal's default settings instead, which offer every suite and group\n\
         but those with ML-KEM, and hand out two tickets after a handshake with certificates. Neither\n\
         names its authorities. Connection IDs (CIDs) have 8 B in both directions.\n\n\
         The authority is no part of the chain that is sent, so each end sends one certificate, ECDSA\n\
         with P-256. The length of a signature varies by some bytes; the median of several handshakes is\n\
         shown.\n\n\
         wolfSSL is version {}.\n\
         {} has no DTLS 1.3, no connection IDs and no raw public keys, so it has\n\
         fewer rows. Its cookie of DTLS 1.2 has 16 B as ours, wolfSSL's has 32. wolfSSL splits a ClientHello\n\
         with ML-KEM only if the server asks for a cookie, and leaves the key share out where its hello\n\
         does not fit a datagram, as with CIDs, so these rows are missing.\n\n\
         Written by `cargo run --release -p interop --bin sizes -- --write docs/handshake-sizes.md`; a\n\
         test compares it with new handshakes, and `cargo xtask claim handshake-sizes` counts the rows in\n\
         which Lightseal sends more than another implementation.\n{}",
        wolfssl::version(),
        openssl_race::version(),
        tables(rows),
    )
}

fn tables(rows: &[Row]) -> String {
    [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12]
        .map(|version| format!("\n## {version}\n\n{}", sizes::table(rows, version)))
        .concat()
}
