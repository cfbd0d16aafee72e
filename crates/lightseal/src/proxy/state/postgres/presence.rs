//! Whether a node runs that must not, when another process begins.

use crate::database::DatabaseError;
use crate::failure::Failure;
use crate::proxy::fleet::slots::NodeNumber;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// How long beats are watched: a node that runs beats several times in this time.
const WATCH: Duration = Duration::from_millis(1500);

/// How often they are read.
const PACE: Duration = Duration::from_millis(100);

const PULSES: &str = "SELECT number, incarnation, beat FROM node WHERE NOT departed";

/// A process that begins as a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newcomer {
    pub(super) node: NodeNumber,
    /// The number of the last run from this process's directory. Nothing runs there any more.
    pub(super) former: Option<i64>,
    /// Whether it removes all associations of the fleet.
    pub(super) forgets: bool,
}

impl Newcomer {
    /// Waits whether a node beats that must not run: another process of this number, or any node if all
    /// associations are to be removed. Returns what to say then.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub(super) async fn who_runs(&self, client: &Client) -> Result<Option<Failure>, DatabaseError> {
        let began = Instant::now();
        let before = self.pulses(client).await?;
        while !before.is_empty() && began.elapsed() < WATCH {
            tokio::time::sleep(PACE).await;
            let now = self.pulses(client).await?;
            let runs = now.into_iter().find(|(node, pulse)| before.get(node) != Some(pulse));
            let Some((number, _)) = runs else { continue };
            let runs = format!("node {number} runs: its beat goes up");
            return Ok(Some(Failure::new(match number == i16::from(self.node.0) {
                true => format!("{runs}; each process needs a --node of its own"),
                false => format!("{runs}; --forget needs all nodes to be stopped"),
            })));
        }
        Ok(None)
    }

    /// The beats of the nodes that must not run.
    async fn pulses(&self, client: &Client) -> Result<BTreeMap<i16, (i64, i64)>, DatabaseError> {
        let mut pulses = BTreeMap::new();
        for row in client.query(PULSES, &[]).await? {
            let (number, incarnation): (i16, i64) = (row.try_get(0)?, row.try_get(1)?);
            let is_own = number == i16::from(self.node.0);
            // The process whose directory this is has ended: the directory's lock was free.
            let has_ended = is_own && self.former == Some(incarnation);
            if !has_ended && (is_own || self.forgets) {
                pulses.insert(number, (incarnation, row.try_get(2)?));
            }
        }
        Ok(pulses)
    }
}
