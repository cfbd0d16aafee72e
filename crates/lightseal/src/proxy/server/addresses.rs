//! The addresses of identities, where they are stored.

use super::ServerProxy;
use crate::proxy::source_address::SourceAddresses;
use crate::proxy::source_address::book::OpenBook;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;

impl ServerProxy {
    /// Has the addresses of identities in a book from now on, if there is one. To be called before there
    /// are associations.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn store_addresses(&self, book: Option<OpenBook>) -> io::Result<()> {
        let (Some(book), Some(prefix)) = (book, self.options.source_prefix) else { return Ok(()) };
        let (outers, common) = (Arc::downgrade(&self.outers), Arc::downgrade(&self.common));
        let told = move |assigned: &[(Arc<str>, _)]| {
            let (Some(outers), Some(common)) = (outers.upgrade(), common.upgrade()) else { return };
            if let Some(sources) = common.sources().as_mut() {
                sources.learn(assigned);
            }
            for outer in &*outers {
                outer.call(|_, host, _| {
                    for (identity, _) in assigned {
                        host.opening.extend(host.addressless.remove(identity).unwrap_or_default());
                    }
                });
            }
        };
        let book = book.start(prefix, Box::new(told))?;
        *self.common.sources() = Some(SourceAddresses::new(prefix, Some(book)));
        Ok(())
    }

    /// Notes once a day which identities are there.
    pub(super) fn keep_addresses(&self) {
        let is_due = |sources: &SourceAddresses| sources.is_day_over();
        if !self.common.sources().as_ref().is_some_and(is_due) {
            return;
        }
        let mut present = Vec::new();
        for outer in &*self.outers {
            outer.call(|_, host, _| {
                present.extend(host.associations.values().map(|of| Arc::clone(&of.identity)));
            });
        }
        if let Some(sources) = self.common.sources().as_mut() {
            sources.keep(present);
        }
    }

    /// Adds what the statistics say of keys and addresses that are looked up.
    pub(super) fn count_lookups(&self, statistics: &mut Value) {
        if let Some(keys) = &self.options.keys {
            statistics["keys"] = json!(keys.report());
        }
        if let Some((assigned, waiting)) =
            self.common.sources().as_ref().map(SourceAddresses::counts)
        {
            let addresses = json!({ "assigned": assigned, "waiting": waiting });
            statistics["source_addresses"] = addresses;
        }
    }
}
