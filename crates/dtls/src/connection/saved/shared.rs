//! What is saved of an association that has negotiated shared tags.
//!
//! ```text
//! | schemes for what is sent | schemes for what is received | scheme of the sending epoch
//! | receiving epoch that our update began, or 0
//! | 0, or 1 and how the epoch before the sending one has ended: message (16) | records (48), tag |
//! ```
//!
//! Lists and the end of an epoch have a length of 8 bits before them. Schemes are written as in the
//! extension. States of sets are not saved: what has no tag yet when a process ends is lost.

use super::Persistence;
use super::marks::RestoreError;
use crate::config::{Settings, can_aggregate};
use crate::connection::Connection;
use crate::connection::schemes::AggregationUpdates;
use crate::crypto::CipherSuite;
use crate::handshake::OfferedSchemes;
use crate::messages::aggregation::{read_scheme, write_scheme};
use crate::record::{ReceiveEpoch, SendEpoch};
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Instant, Reader, Writer};

/// What only shared tags need.
pub(super) struct SharedTags {
    pub(super) offered: OfferedSchemes,
    /// The scheme of the sending epoch.
    pub(super) send: Scheme,
    pub(super) updates: AggregationUpdates,
}

impl SharedTags {
    /// An association without shared tags.
    pub(super) fn none() -> Self {
        Self {
            offered: OfferedSchemes::default(),
            send: Scheme::Plain,
            updates: AggregationUpdates::default(),
        }
    }

    /// Reads what [`write()`] has written.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, RestoreError> {
        let offered = OfferedSchemes::restored(read_schemes(r)?, read_schemes(r)?);
        let offered = offered.ok_or(RestoreError::SharedTags)?;
        let send = read_scheme(r)?;
        if send.aggregates() && !offered.may_send(send) {
            return Err(DecodeError::invalid("aggregation scheme").into());
        }
        Ok(Self { offered, send, updates: AggregationUpdates::read(r)? })
    }

    /// Fails unless this end can go on with the association: its configuration accepts shared tags
    /// in each direction that may have them, as a handshake would.
    pub(super) fn check(
        &self,
        settings: &Settings,
        suite: &CipherSuite,
    ) -> Result<(), RestoreError> {
        let (send, receive) = (self.offered.send(), self.offered.receive());
        let policy = &settings.aggregation;
        let accepted = (send.is_empty() || policy.to_send().any(Scheme::aggregates))
            && (receive.is_empty() || policy.to_receive().any(Scheme::aggregates));
        if accepted && can_aggregate(suite) { Ok(()) } else { Err(RestoreError::SharedTags) }
    }

    /// Reads the scheme of a receiving epoch.
    pub(super) fn read_received(&self, r: &mut Reader<'_>) -> Result<Scheme, DecodeError> {
        let scheme = read_scheme(r)?;
        if scheme.aggregates() && !self.offered.may_receive(scheme) {
            return Err(DecodeError::invalid("aggregation scheme"));
        }
        Ok(scheme)
    }
}

/// Messages under shared tags that have no tag, or not all of their tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenSets {
    /// Messages that were sent, with the records between them. The peer delivers none of them before
    /// their tag comes.
    pub sent: u64,
    /// Messages that were received and are not delivered yet.
    pub received: u64,
}

#[cfg(feature = "persistence")]
impl Connection {
    /// The messages under shared tags that would be lost if the process ended now.
    pub fn open_sets(&self) -> OpenSets {
        let received = self.channel.receive.all().iter().map(ReceiveEpoch::waiting).sum();
        let sent = self.channel.send.peek().map_or(0, SendEpoch::open_records);
        OpenSets { sent, received }
    }

    /// How many messages under shared tags may have been lost, at most, because the predecessor of a
    /// restored association did not end in an orderly way. What the network had lost is not counted.
    pub fn cut_sets(&self) -> OpenSets {
        let is_cut = self.persistence.get().is_some_and(Persistence::is_cut);
        if !is_cut {
            return OpenSets::default();
        }
        let most = |scheme: Scheme| scheme.most_open() as u64;
        let sent = self.channel.send.peek().map_or(0, |epoch| most(epoch.scheme()));
        let received = self.channel.receive.newest().map_or(0, |epoch| most(epoch.scheme()));
        OpenSets { sent, received }
    }

    /// Sends the tag of the messages that wait for one, as before [`save`](Self::save).
    pub fn close_sets(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let is_open = self.channel.send.peek().is_some_and(SendEpoch::has_open_data);
        if is_open && let Some(pace) = self.pace.get_mut() {
            pace.close_now();
        }
    }
}

/// Writes what only shared tags need.
pub(super) fn write(
    offered: &OfferedSchemes,
    send: Scheme,
    updates: &AggregationUpdates,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    write_schemes(offered.send().iter().copied().filter(|scheme| scheme.can_send()), w)?;
    write_schemes(offered.receive().iter().copied().filter(|scheme| scheme.can_receive()), w)?;
    write_scheme(send, w)?;
    updates.write(w)
}

fn write_schemes(
    mut schemes: impl Iterator<Item = Scheme>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    w.vec8(|w| schemes.try_for_each(|scheme| write_scheme(scheme, w)))
}

/// Writes the scheme of a receiving epoch.
pub(super) fn write_received(epoch: &ReceiveEpoch, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    write_scheme(epoch.scheme(), w)
}

fn read_schemes(r: &mut Reader<'_>) -> Result<Vec<Scheme>, DecodeError> {
    let mut list = Reader::new(r.vec8()?);
    let mut schemes = Vec::new();
    while !list.is_empty() {
        match read_scheme(&mut list)? {
            scheme if scheme.aggregates() => schemes.push(scheme),
            _ => return Err(DecodeError::invalid("aggregation scheme")),
        }
    }
    Ok(schemes)
}
