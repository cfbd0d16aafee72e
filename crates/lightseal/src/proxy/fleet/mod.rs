//! Several server proxies that share their associations: the rules, without a database.
//!
//! - [`slots`]: which node owns which slot, and where it listens;
//! - [`death`]: when a node counts as dead;
//! - [`plan`]: which slots a node takes, and which it gives to others.

pub(crate) mod death;
pub(crate) mod plan;
pub(crate) mod slots;
