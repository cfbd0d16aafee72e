//! What all places have in common that have addresses of identities.

use super::SourcePrefix;
use std::net::IpAddr;
use std::sync::Arc;

/// A place that has the address of each identity.
pub(super) trait AddressStore: Send {
    /// The addresses of identities, in their order; `None` for one that the prefix has no room for. They
    /// are durable when this returns.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written. The call can be repeated.
    fn assign(
        &mut self,
        prefix: SourcePrefix,
        identities: &[Arc<str>],
    ) -> Result<Vec<Option<IpAddr>>, String>;

    /// Notes that these identities are there.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    fn note(&mut self, identities: &[Arc<str>]) -> Result<(), String>;
}
