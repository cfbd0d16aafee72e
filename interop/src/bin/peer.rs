//! One end of a connection made by a library, as a program: see [`interop::library`].

use clap::{Parser, ValueEnum};
use interop::library::{self, Settings};
use interop::peers::{Role, Suite};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Serves or connects with DTLS by one library.
#[derive(Parser)]
struct Arguments {
    /// The library.
    library: Library,
    /// The end: serve or connect.
    end: EndArgument,
    /// The address to serve at, or to connect to.
    address: SocketAddr,
    /// The only suite, by its name in the matrix.
    #[arg(long)]
    suite: String,
    /// The identity of the pre-shared key.
    #[arg(long)]
    identity: String,
    /// The pre-shared key, in hex.
    #[arg(long)]
    key_hex: String,
    /// Length in bytes of the connection ID to receive with, or none not to offer the extension.
    #[arg(long, default_value = "none")]
    cid: String,
    /// Put one handshake message in each record, if the library can choose.
    #[arg(long)]
    single: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Library {
    Lightseal,
    Mbedtls,
    Tinydtls,
    Wolfssl,
}

#[derive(Clone, Copy, ValueEnum)]
enum EndArgument {
    Serve,
    Connect,
}

fn main() -> ExitCode {
    // Messages of panics are one line, as those of every other peer.
    std::panic::set_hook(Box::new(|panic| eprintln!("{}", panic.to_string().replace('\n', " "))));
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let role = match arguments.end {
        EndArgument::Serve => Role::Server,
        EndArgument::Connect => Role::Client,
    };
    let cid = match arguments.cid.as_str() {
        "none" => None,
        bytes => Some(bytes.parse().map_err(|_| format!("no length: {bytes}"))?),
    };
    let suite = Suite::named(&arguments.suite).ok_or("a suite that the matrix does not have")?;
    let single = arguments.single;
    let key = from_hex(&arguments.key_hex).ok_or("the key is not in hex")?;
    let settings =
        Settings { suite, identity: arguments.identity.clone().into(), key, cid, single };
    match arguments.library {
        Library::Lightseal => library::run(role, arguments.address, |address| {
            library::lightseal::end(role, &settings, address)
        }),
        Library::Mbedtls => library::run(role, arguments.address, |address| {
            library::mbedtls::end(role, &settings, address)
        }),
        Library::Tinydtls => library::run(role, arguments.address, |address| {
            library::tinydtls::end(role, &settings, address)
        }),
        Library::Wolfssl => library::run(role, arguments.address, |address| {
            library::wolfssl::end(role, &settings, address)
        }),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}
