//! One end of a connection made by a library, as a program: see [`interop::library`].

use clap::{Parser, ValueEnum};
use interop::library::{self, Settings};
use interop::peers::{Credential, Group, Role, Suite};
use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// What both ends prove their identity with.
    #[arg(long, default_value = "psk")]
    credential: String,
    /// The folder with keys and certificates.
    #[arg(long, default_value = "")]
    files: PathBuf,
    /// The server's only group.
    #[arg(long, default_value = "x25519")]
    group: String,
    /// Whether the client has a certificate or raw public key as well.
    #[arg(long, default_value = "no")]
    mutual: Flag,
    /// Whether the client's first share is for another group.
    #[arg(long, default_value = "no")]
    retried: Flag,
    /// Whether the client connects again when it is told so, with the session of its first connection.
    #[arg(long, default_value = "no")]
    resumed: Flag,
    /// Put one handshake message in each record, if the library can choose.
    #[arg(long)]
    single: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Library {
    Dimpl,
    Lightseal,
    Mbedtls,
    Tinydtls,
    Wolfssl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flag {
    Yes,
    No,
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
    let credential = Credential::named(&arguments.credential).ok_or("no such credential")?;
    let group = Group::named(&arguments.group).ok_or("no such group")?;
    let settings = Settings {
        suite,
        identity: arguments.identity.clone().into(),
        key,
        cid,
        single,
        credential,
        files: arguments.files.clone(),
        group,
        mutual: arguments.mutual == Flag::Yes,
        retried: arguments.retried == Flag::Yes,
        resumed: arguments.resumed == Flag::Yes,
    };
    match arguments.library {
        Library::Dimpl => {
            let make = library::dimpl::ends(role, &settings)?;
            library::run(role, arguments.address, make)
        }
        Library::Lightseal => {
            let make = library::lightseal::ends(role, &settings)?;
            library::run(role, arguments.address, make)
        }
        Library::Mbedtls => {
            let make = library::mbedtls::ends(role, &settings)?;
            library::run(role, arguments.address, make)
        }
        Library::Tinydtls => library::run(role, arguments.address, |address, _, _| {
            library::tinydtls::end(role, &settings, address)
        }),
        Library::Wolfssl => {
            let make = library::wolfssl::ends(role, &settings)?;
            library::run(role, arguments.address, make)
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}
