//! What joins the cables of the guest's ends.

use super::Guest;
use crate::Failure;
use std::any::Any;

/// A way to join all ends of a guest to one network.
pub trait Join {
    /// As a word.
    fn name(&self) -> &str;

    /// In a sentence: what joins them.
    fn about(&self) -> String;

    /// Whether MKA gets through.
    fn carries_mka(&self) -> bool;

    /// Joins the ends. What is given back lasts as long as they are to be joined.
    ///
    /// # Errors
    /// When it cannot be done here, or something that is started for it fails.
    fn join(&self, guest: &Guest) -> Result<Box<dyn Any>, Failure>;
}

/// A Linux bridge that lets MKA through: as good as one cable.
#[derive(Clone, Copy, Debug)]
pub struct Bridge;

impl Join for Bridge {
    fn name(&self) -> &str {
        "bridge"
    }

    fn about(&self) -> String {
        "a bridge".into()
    }

    fn carries_mka(&self) -> bool {
        true
    }

    fn join(&self, guest: &Guest) -> Result<Box<dyn Any>, Failure> {
        guest.join_by_bridge()?;
        Ok(Box::new(()))
    }
}
