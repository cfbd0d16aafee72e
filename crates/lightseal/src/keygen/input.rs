//! Files that were given for others.

use crate::failure::Failure;
use std::fmt::Display;
use x509_cert::der::pem;

/// The error for a file called `name` in which there is no `wanted`. Says what it has instead if it
/// is PEM.
pub(super) fn lacks(name: impl Display, bytes: &[u8], wanted: &str) -> Failure {
    match pem::decode_label(bytes) {
        Ok(label) => Failure::new(format_args!("{name}: no {wanted} in it, but {label:?}")),
        Err(_) => Failure::new(format_args!("{name}: no {wanted} in it")),
    }
}
