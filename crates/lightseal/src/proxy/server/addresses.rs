//! The addresses of identities, where they are stored.

use super::{ServerHost, ServerProxy};
use crate::proxy::source_address::SourceAddresses;
use crate::proxy::source_address::book::OpenBook;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::runtime;

impl ServerProxy {
    /// Has the addresses of identities in a book from now on, if there is one. To be called with a runtime entered, and
    /// before there are associations.
    ///
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(crate) fn store_addresses(&self, book: Option<OpenBook>) -> io::Result<()> {
        let (Some(book), Some(prefix)) = (book, self.options.source_prefix) else { return Ok(()) };
        let (outer, runtime) = (Arc::downgrade(&self.outer), runtime::Handle::current());
        let told = move |assigned: &[(Arc<str>, _)]| {
            let Some(outer) = outer.upgrade() else { return };
            // Sockets need tasks.
            let _entered = runtime.enter();
            outer.call(|_, host, _| {
                if let Some(sources) = &mut host.sources {
                    sources.learn(assigned);
                }
                for (identity, _) in assigned {
                    host.opening.extend(host.addressless.remove(identity).unwrap_or_default());
                }
            });
        };
        let book = book.start(prefix, Box::new(told))?;
        self.outer.call(|_, host, _| host.sources = Some(SourceAddresses::new(prefix, Some(book))));
        Ok(())
    }
}

impl ServerProxy {
    /// Adds what the statistics say of keys and addresses that are looked up.
    pub(super) fn count_lookups(&self, statistics: &mut Value) {
        if let Some(keys) = &self.options.keys {
            statistics["keys"] = json!(keys.report());
        }
        if let Some(addresses) = self.outer.call(|_, host, _| host.addresses()) {
            statistics["source_addresses"] = addresses;
        }
    }
}

impl ServerHost {
    /// Notes once a day which identities are there.
    pub(super) fn keep_addresses(&mut self) {
        if let Some(sources) = &mut self.sources {
            sources.keep(self.associations.values().map(|of| Arc::clone(&of.identity)));
        }
    }

    /// What the statistics say of addresses that are stored.
    fn addresses(&self) -> Option<Value> {
        let (assigned, waiting) = self.sources.as_ref()?.counts();
        Some(json!({ "assigned": assigned, "waiting": waiting }))
    }
}
