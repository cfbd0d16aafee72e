//! Revocation lists.

use super::args::{in_days, now};
use super::authority::Authority;
use super::input;
use super::output;
use crate::failure::{Context, Failure};
use clap::Args;
use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use std::path::{Path, PathBuf};
use x509_cert::der::Decode;

#[derive(Clone, Debug, Args)]
pub(crate) struct CrlArgs {
    /// File for the list (PEM).
    file: PathBuf,
    /// The authority, whose files are CA.key and CA.pem.
    #[arg(long, value_name = "CA")]
    ca: PathBuf,
    /// Certificates that are revoked: all of them, also those of earlier lists.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    revoke: Vec<PathBuf>,
    /// Number of days until the next list. After that, peers accept no certificate by this list.
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
    /// Overwrite a file that exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &CrlArgs) -> Result<(), Failure> {
    output::check([&args.file], args.force)?;
    let authority = Authority::load(&args.ca)?;
    let issued_now = now();
    let revoked = args.revoke.iter().map(|file| {
        Ok(RevokedCertParams {
            serial_number: serial_number(file, &authority)?,
            revocation_time: issued_now,
            reason_code: None,
            invalidity_date: None,
        })
    });
    let list = CertificateRevocationListParams {
        this_update: issued_now,
        next_update: in_days(args.days),
        // Grows with each list (RFC 5280, section 5.2.3).
        crl_number: SerialNumber::from(issued_now.unix_timestamp().unsigned_abs()),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect::<Result<_, Failure>>()?,
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(authority.issuer()).context("no revocation list could be made")?;
    let pem = list.pem().context("no revocation list could be made")?;
    output::write(&args.file, pem.as_bytes(), args.force)
}

/// The serial number of the first certificate in a file, which the authority must have issued: the
/// same number of another authority is another certificate.
fn serial_number(path: &Path, authority: &Authority) -> Result<SerialNumber, Failure> {
    let name = path.display();
    let bytes = std::fs::read(path).context(&name)?;
    let der = CertificateDer::from_pem_slice(&bytes);
    let der = der.unwrap_or_else(|_| CertificateDer::from(&bytes[..]));
    let certificate = x509_cert::Certificate::from_der(&der)
        .map_err(|_| input::lacks(&name, &bytes, "certificate"))?;
    let certificate = certificate.tbs_certificate();
    let (issuer, ours) = (certificate.issuer(), authority.subject());
    if issuer != ours {
        return Err(Failure::new(format_args!("{name}: issued by {issuer}, not by {ours}")));
    }
    Ok(SerialNumber::from_slice(certificate.serial_number().as_bytes()))
}
