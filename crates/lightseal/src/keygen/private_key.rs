//! Key pairs, new or from a file.

use super::args::{KeyType, OutputArgs};
use super::output::{self, Made};
use crate::failure::{Context, Failure};
use clap::Args;
use lightseal_pki::SpkiHash;
use pki_types::pem::PemObject;
use pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rcgen::{KeyPair, PublicKeyData, RsaKeySize};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArgs {
    /// File for the new private key (PKCS #8 in PEM). Only this user can read it.
    file: PathBuf,
    /// Kind of the key.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    key_type: KeyType,
    /// Also write the public key (SubjectPublicKeyInfo in PEM) to this file.
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SpkiArgs {
    /// File with a private key, a certificate or a public key, PEM or DER.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn make(args: &KeyArgs) -> Result<(), Failure> {
    let files = [Some(&args.file), args.public.as_ref()];
    output::check(files.into_iter().flatten(), args.output.force)?;
    let key = generate(args.key_type)?;
    output::write_key(&args.file, &key, args.output.force)?;
    if let Some(public) = &args.public {
        output::write(public, key.public_key_pem().as_bytes(), args.output.force)?;
    }
    let made =
        Made { key: Some(&args.file), public_key: args.public.as_deref(), ..Made::of(hash(&key)) };
    made.print(&args.file, args.output.json)
}

pub(super) fn spki(args: &SpkiArgs) -> Result<(), Failure> {
    let name = args.file.display();
    let bytes = Zeroizing::new(std::fs::read(&args.file).context(&name)?);
    let hash = hash_of(&bytes).ok_or_else(|| {
        Failure::new(format_args!("{name}: no private key, certificate or public key"))
    })?;
    let mut out = std::io::stdout();
    let written = if args.json {
        writeln!(out, "{}", json!({ "spki": hash.to_string() }))
    } else {
        writeln!(out, "{hash}")
    };
    written.context("standard output")
}

/// The hash of the public key in a file.
fn hash_of(bytes: &[u8]) -> Option<SpkiHash> {
    if let Ok(key) = lightseal_pki::credential::private_key_der(bytes) {
        return KeyPair::try_from(&key).ok().map(|key| hash(&key));
    }
    if let Ok(spki) = SubjectPublicKeyInfoDer::from_pem_slice(bytes) {
        return Some(SpkiHash::of(&spki));
    }
    let certificate = CertificateDer::from_pem_slice(bytes);
    let certificate = certificate.unwrap_or_else(|_| CertificateDer::from(bytes));
    SpkiHash::of_certificate(&certificate).ok()
}

pub(super) fn hash(key: &impl PublicKeyData) -> SpkiHash {
    SpkiHash::of(&key.subject_public_key_info())
}

pub(super) fn generate(key_type: KeyType) -> Result<KeyPair, Failure> {
    let key = match key_type {
        KeyType::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyType::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyType::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
        KeyType::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
    };
    key.context("no key could be made")
}

/// The private key in a file that only this user can read.
pub(super) fn load(path: &Path) -> Result<KeyPair, Failure> {
    let name = path.display();
    let metadata = std::fs::metadata(path).context(&name)?;
    crate::keys::refuse_exposed(&name.to_string(), path, &metadata)?;
    let bytes = Zeroizing::new(std::fs::read(path).context(&name)?);
    let key = lightseal_pki::credential::private_key_der(&bytes).context(&name)?;
    KeyPair::try_from(&key).context(&name)
}
