//! Certificates, keys and the verifier.

/// What happened to certificates in a connection.
#[derive(Debug, Default)]
pub(crate) struct Log;
