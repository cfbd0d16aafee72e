//! The owners of the slots, for a program that is no node: it needs the right to read `lightseal.slot`
//! and no other.

use super::session::bounded;
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::failure::{Context, Failure};
use crate::proxy::fleet::slots::{NodeNumber, SLOTS};
use tokio_postgres::Client;

/// Reads which node owns which slot.
#[derive(Debug)]
pub(crate) struct Owners {
    runtime: OwnRuntime,
    url: StoreUrl,
    client: Option<Client>,
}

impl Owners {
    /// Connects with the first question.
    ///
    /// # Errors
    ///
    /// If the system has no descriptors left.
    pub(crate) fn new(url: StoreUrl) -> Result<Self, Failure> {
        Ok(Self { runtime: OwnRuntime::new().context("--store")?, url, client: None })
    }

    /// The owner of each slot; `None` for a slot that nobody owns.
    ///
    /// # Errors
    ///
    /// If the database cannot be read. The next question connects anew.
    pub(crate) fn read(&mut self) -> Result<[Option<NodeNumber>; SLOTS], Failure> {
        let (client, url) = (self.client.take(), &self.url);
        let asked = self.runtime.block_on(bounded(async {
            let client = match client {
                Some(client) => client,
                None => url.connect(|_| ()).await?,
            };
            let rows = client.query("SELECT slot, owner FROM lightseal.slot", &[]).await?;
            let mut owners = [None; SLOTS];
            for row in rows {
                let (slot, owner): (i16, Option<i16>) = (row.try_get(0)?, row.try_get(1)?);
                let owner = owner.and_then(|owner| u8::try_from(owner).ok()).map(NodeNumber);
                if let Some(of) = usize::try_from(slot).ok().and_then(|slot| owners.get_mut(slot)) {
                    *of = owner;
                }
            }
            Ok::<_, DatabaseError>((client, owners))
        }));
        let (client, owners) =
            asked.and_then(|asked| asked).context(format_args!("--store {url}"))?;
        self.client = Some(client);
        Ok(owners)
    }
}
