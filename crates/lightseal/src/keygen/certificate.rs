//! Certificates: self-signed ones, authorities, those under an authority, and requests for one.

use super::args::{DaysArgs, NewKeyArgs, OutputArgs, PurposeArgs, SubjectArgs, in_days, now};
use super::authority::Authority;
use super::output::{self, Made, with_extension};
use super::request::Request;
use super::{constraints, private_key, request};
use crate::failure::{Context, Failure};
use clap::Args;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair, KeyUsagePurpose, SerialNumber,
};
use std::path::{Path, PathBuf};
use time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct SelfSignedArgs {
    /// Name of the files: PREFIX.key for the private key, PREFIX.pem for the certificate.
    prefix: PathBuf,
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    purpose: PurposeArgs,
    #[command(flatten)]
    days: DaysArgs,
    #[command(flatten)]
    key: NewKeyArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CaArgs {
    /// Name of the files: PREFIX.key for the private key, PREFIX.pem for the certificate.
    prefix: PathBuf,
    /// Name of the authority: a common name, or a distinguished name such as "CN=Plant
    /// CA,O=Example". Without it, it is the name of the files.
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// An authority under this one, whose files are CA.key and CA.pem, in place of one that signs
    /// itself.
    #[arg(long, value_name = "CA")]
    ca: Option<PathBuf>,
    /// The largest number of authorities between this one and a certificate.
    #[arg(long, value_name = "NUMBER")]
    path_length: Option<u8>,
    /// Certificates may have only names in this domain or network (a.example, 192.0.2.0/24), and no
    /// URIs. May be repeated.
    #[arg(long, value_name = "NAME")]
    permit: Vec<String>,
    /// Number of days for which the certificate is valid.
    #[arg(long, value_name = "DAYS", default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
    #[command(flatten)]
    key: NewKeyArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CertificateArgs {
    /// Name of the files: PREFIX.key for the private key, PREFIX.pem for the certificate with those
    /// of its authority.
    prefix: PathBuf,
    /// The authority, whose files are CA.key and CA.pem.
    #[arg(long, value_name = "CA")]
    ca: PathBuf,
    /// Make the certificate for the key in this request, whose signature is verified. Names and
    /// subject are the request's, unless they are given.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "key_type"])]
    request: Option<PathBuf>,
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    purpose: PurposeArgs,
    #[command(flatten)]
    days: DaysArgs,
    #[command(flatten)]
    key: NewKeyArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RequestArgs {
    /// Name of the files: PREFIX.key for the private key, PREFIX.csr for the request.
    prefix: PathBuf,
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    key: NewKeyArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The files of a prefix. A key that exists elsewhere is not among them.
struct Files {
    key: Option<PathBuf>,
    other: PathBuf,
}

impl Files {
    /// Chooses the names, and refuses to overwrite.
    fn new(prefix: &Path, extension: &str, new_key: bool, force: bool) -> Result<Self, Failure> {
        let key = new_key.then(|| with_extension(prefix, "key"));
        let files = Self { key, other: with_extension(prefix, extension) };
        output::check([&files.other].into_iter().chain(&files.key), force)?;
        Ok(files)
    }
}

fn file_name(prefix: &Path) -> String {
    prefix.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn key_pair(args: &NewKeyArgs) -> Result<KeyPair, Failure> {
    match &args.key {
        Some(file) => private_key::load(file),
        None => private_key::generate(args.key_type),
    }
}

/// What all certificates have.
fn params(days: u32) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::default();
    // Clocks of peers may be slow.
    params.not_before = now() - Duration::hours(1);
    params.not_after = in_days(days);
    params.serial_number = Some(serial_number()?);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A random number of 126 bits (RFC 5280, section 4.1.2.2), so that no two certificates of an
/// authority have the same one.
fn serial_number() -> Result<SerialNumber, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("no randomness")?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn end_params(
    subject: &SubjectArgs,
    fallback: &str,
    purpose: &PurposeArgs,
    days: u32,
) -> Result<CertificateParams, Failure> {
    let mut params = params(days)?;
    params.distinguished_name = subject.subject(fallback)?;
    params.subject_alt_names = subject.alternative_names()?;
    params.extended_key_usages = purpose.extended_key_usages();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.is_ca = IsCa::ExplicitNoCa;
    Ok(params)
}

pub(super) fn self_signed(args: &SelfSignedArgs) -> Result<(), Failure> {
    let files = Files::new(&args.prefix, "pem", args.key.key.is_none(), args.output.force)?;
    let fallback = file_name(&args.prefix);
    let params = end_params(&args.subject, &fallback, &args.purpose, args.days.days)?;
    let key = key_pair(&args.key)?;
    let certificate = params.self_signed(&key).context("no certificate could be made")?;
    store(&files, &args.prefix, &params, &key, &[&certificate.pem()], &args.output)
}

pub(super) fn ca(args: &CaArgs) -> Result<(), Failure> {
    let files = Files::new(&args.prefix, "pem", args.key.key.is_none(), args.output.force)?;
    let subject = SubjectArgs { subject: args.subject.clone(), names: Vec::new() };
    let mut params = params(args.days)?;
    params.distinguished_name = subject.subject(&file_name(&args.prefix))?;
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let length = args.path_length;
    params.is_ca =
        IsCa::Ca(length.map_or(BasicConstraints::Unconstrained, BasicConstraints::Constrained));
    if !args.permit.is_empty() {
        params.custom_extensions.push(constraints::extension(&args.permit)?);
    }
    let key = key_pair(&args.key)?;
    let Some(issuer) = &args.ca else {
        let certificate = params.self_signed(&key).context("no certificate could be made")?;
        return store(&files, &args.prefix, &params, &key, &[&certificate.pem()], &args.output);
    };
    let authority = Authority::load(issuer)?;
    let certificate = authority.issue(&params, &key)?;
    let chain = chain(&certificate, &authority)?;
    store(&files, &args.prefix, &params, &key, &chain.each_ref().map(String::as_str), &args.output)
}

pub(super) fn certificate(args: &CertificateArgs) -> Result<(), Failure> {
    let new_key = args.key.key.is_none() && args.request.is_none();
    let files = Files::new(&args.prefix, "pem", new_key, args.output.force)?;
    let authority = Authority::load(&args.ca)?;
    let fallback = file_name(&args.prefix);
    let mut params = end_params(&args.subject, &fallback, &args.purpose, args.days.days)?;
    let only_client = args.purpose.only_client();
    let Some(file) = &args.request else {
        let key = key_pair(&args.key)?;
        let certificate = authority.issue(&params, &key)?;
        authority.check(&certificate, only_client)?;
        let chain = chain(&certificate, &authority)?;
        let chain = chain.each_ref().map(String::as_str);
        return store(&files, &args.prefix, &params, &key, &chain, &args.output);
    };
    let request = Request::load(file)?;
    if args.subject.subject.is_none() && args.subject.names.is_empty() {
        params.distinguished_name = request.subject()?;
        params.subject_alt_names = request.alternative_names()?;
    }
    let certificate = authority.issue(&params, &request)?;
    authority.check(&certificate, only_client)?;
    output::write(
        &files.other,
        chain(&certificate, &authority)?.concat().as_bytes(),
        args.output.force,
    )?;
    let made = Made {
        certificate: Some(&files.other),
        not_after: Some(params.not_after),
        ..Made::of(private_key::hash(&request))
    };
    made.print(&args.prefix, args.output.json)
}

/// A certificate with those of its authority, which ends before the root: whoever verifies the chain
/// has the root.
fn chain(certificate: &Certificate, authority: &Authority) -> Result<[String; 2], Failure> {
    Ok([certificate.pem(), authority.chain_pem()?])
}

pub(super) fn request(args: &RequestArgs) -> Result<(), Failure> {
    let files = Files::new(&args.prefix, "csr", args.key.key.is_none(), args.output.force)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = args.subject.subject(&file_name(&args.prefix))?;
    params.subject_alt_names = args.subject.alternative_names()?;
    let key = key_pair(&args.key)?;
    let pem = request::make(&params, &key)?;
    if let Some(file) = &files.key {
        output::write_key(file, &key, args.output.force)?;
    }
    output::write(&files.other, pem.as_bytes(), args.output.force)?;
    let made = Made {
        key: files.key.as_deref(),
        request: Some(&files.other),
        ..Made::of(private_key::hash(&key))
    };
    made.print(&args.prefix, args.output.json)
}

/// Writes a new key and its certificates, and prints what was made.
fn store(
    files: &Files,
    prefix: &Path,
    params: &CertificateParams,
    key: &KeyPair,
    chain: &[&str],
    args: &OutputArgs,
) -> Result<(), Failure> {
    if let Some(file) = &files.key {
        output::write_key(file, key, args.force)?;
    }
    output::write(&files.other, chain.concat().as_bytes(), args.force)?;
    let made = Made {
        key: files.key.as_deref(),
        certificate: Some(&files.other),
        not_after: Some(params.not_after),
        ..Made::of(private_key::hash(key))
    };
    made.print(prefix, args.json)
}
