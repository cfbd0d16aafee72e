//! `lightseal keygen`: keys, certificates and revocation lists.
//!
//! - [`args`]: the flags that several subcommands have;
//! - [`private_key`]: key pairs, new or from a file;
//! - [`certificate`]: self-signed certificates, authorities, certificates under an authority,
//!   and requests for one;
//! - [`authority`]: an authority read from its files;
//! - [`constraints`]: the names for which an authority may issue certificates;
//! - [`distinguished_name`]: names of subjects and authorities;
//! - [`input`]: files that were given for others;
//! - [`request`]: a request for a certificate, read from a file;
//! - [`revocation`]: revocation lists;
//! - [`output`]: what is written to files and printed.

mod args;
mod authority;
mod certificate;
mod constraints;
mod distinguished_name;
mod input;
mod output;
mod private_key;
mod request;
mod revocation;

use crate::failure::Failure;
use crate::keys;
use clap::Subcommand;
use std::path::PathBuf;

/// Keys and certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum KeygenCommand {
    /// Generate a line with a new random key for a PSK file.
    Psk(PskArgs),
    /// Make a private key, and print the hash of its public key, by which peers pin it.
    Key(private_key::KeyArgs),
    /// Print the hash of the public key of a private key, certificate or public key.
    Spki(private_key::SpkiArgs),
    /// Make a key with a certificate that it signed itself, for peers that pin the key or have the
    /// certificate as an authority.
    SelfSigned(certificate::SelfSignedArgs),
    /// Make an authority: a key with a certificate that may sign others.
    Ca(certificate::CaArgs),
    /// Make a certificate under an authority, with a new key or for a request.
    Certificate(certificate::CertificateArgs),
    /// Make a key, and a request for a certificate that its authority signs elsewhere.
    Request(certificate::RequestArgs),
    /// Make a revocation list of an authority.
    Crl(revocation::CrlArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PskArgs {
    /// Identity that the key belongs to. It is sent unencrypted.
    identity: String,
    /// Write the line to this file instead of printing it. Only this user can read the file, and it
    /// must not exist yet.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: &KeygenCommand) -> Result<(), Failure> {
    match command {
        KeygenCommand::Psk(args) => keys::make(&args.identity, args.out.as_ref()),
        KeygenCommand::Key(args) => private_key::make(args),
        KeygenCommand::Spki(args) => private_key::spki(args),
        KeygenCommand::SelfSigned(args) => certificate::self_signed(args),
        KeygenCommand::Ca(args) => certificate::ca(args),
        KeygenCommand::Certificate(args) => certificate::certificate(args),
        KeygenCommand::Request(args) => certificate::request(args),
        KeygenCommand::Crl(args) => revocation::run(args),
    }
}
