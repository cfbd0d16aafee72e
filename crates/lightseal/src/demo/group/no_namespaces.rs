//! Systems other than Linux have no network namespaces.

use super::{GroupDemoArgs, Narration, Outcome};
use crate::failure::Failure;
use crate::system::Signals;
use std::convert::Infallible;

/// The namespaces, of which there are none.
pub(super) struct NamespaceSite(Infallible);

/// # Errors
/// Always.
pub(super) fn site(_: &GroupDemoArgs) -> Result<NamespaceSite, Failure> {
    Err(Failure::new("network namespaces need Linux"))
}

pub(super) async fn run(
    site: NamespaceSite,
    _: usize,
    _: &str,
    _: Narration,
    _: &mut Signals,
) -> Result<Outcome, Failure> {
    match site.0 {}
}
