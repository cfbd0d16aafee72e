//! Several server proxies that share their associations.
//!
//! - [`slots`]: which node owns which slot, and where it listens.

pub(crate) mod slots;
