//! New connection IDs after the handshake (RFC 9147, section 9). DTLS 1.2 has no such messages.

use super::{Connection, Role};
use crate::codepoints::HandshakeType;
use crate::error::{Fault, Misbehaviour};
use crate::handshake::message_body;
use crate::handshake::reassembly::Message;
use crate::messages::connection_id::{
    ConnectionIdUsage, NewConnectionId, RequestConnectionId, write_new_connection_id,
};
use crate::parts::{self, PartState};
use crate::record::{ConnectionId, SendEpoch};
use crate::tuning::{MAX_SPARE_IDS, MAX_VAIN_ID_REQUESTS};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Instant, Reader, Writer};

/// Connection IDs to be given to the peer and requested of it, once there are any.
pub(super) type Ids = PartState<parts::ConnectionIds, IdExchange>;

#[derive(Clone, Debug, Default)]
pub(super) struct IdExchange {
    /// The number of IDs to give, and when the peer is to use them.
    give: Option<(usize, ConnectionIdUsage)>,
    /// The number of IDs to request.
    ask: Option<u8>,
    /// A request was sent and not answered yet: only one request at a time.
    asked: bool,
    /// The number of the peer's requests that could not be granted.
    vain_requests: u32,
    /// The spare IDs that the peer gave, in the order of their use.
    spare: VecDeque<ConnectionId>,
}

impl IdExchange {
    /// Writes what a successor must know: what is owed to the peer and what it owes, the number of
    /// vain requests, and the spare IDs.
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        let owed = match self.give {
            None => 0,
            Some((count, ConnectionIdUsage::Immediate)) => 1 + 2 * count as u64,
            Some((count, ConnectionIdUsage::Spare)) => 2 + 2 * count as u64,
        };
        w.varint(owed)?;
        w.u8(self.asked.into())?;
        w.varint(self.vain_requests.into())?;
        w.varint(self.spare.len() as u64)?;
        self.spare.iter().try_for_each(|id| w.vec8(|w| w.bytes(id)))
    }

    /// Reads what [`write`](Self::write) has written.
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let owed = r.varint()?;
        let count = (owed.saturating_sub(1) / 2) as usize;
        let give = match owed {
            _ if count > MAX_SPARE_IDS => return Err(DecodeError::invalid("number of IDs")),
            0 => None,
            owed if owed % 2 == 1 => Some((count, ConnectionIdUsage::Immediate)),
            _ => Some((count, ConnectionIdUsage::Spare)),
        };
        let asked = r.u8()? != 0;
        let vain_requests =
            u32::try_from(r.varint()?).map_err(|_| DecodeError::invalid("number of requests"))?;
        let count = r.varint()?;
        if count > MAX_SPARE_IDS as u64 {
            return Err(DecodeError::invalid("number of spare IDs"));
        }
        let spare = (0..count).map(|_| ConnectionId::read(r)).collect::<Result<_, _>>()?;
        Ok(Self { give, ask: None, asked, vain_requests, spare })
    }
    /// Whether no message about connection IDs is to be sent.
    pub(super) const fn is_quiet(&self) -> bool {
        self.give.is_none() && self.ask.is_none()
    }
}

/// Writes what a successor must know of the exchange, or that there was none.
pub(super) fn write_saved(ids: &Ids, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    let ids = ids.get().filter(|ids| {
        ids.give.is_some() || ids.asked || ids.vain_requests > 0 || !ids.spare.is_empty()
    });
    w.u8(ids.is_some().into())?;
    ids.map_or(Ok(()), |ids| ids.write(w))
}

/// Reads what [`write_saved`] has written.
pub(super) fn read_saved(r: &mut Reader<'_>) -> Result<Ids, DecodeError> {
    let mut ids = Ids::EMPTY;
    if r.u8()? != 0 {
        let part = parts::ConnectionIds::INCLUDED;
        ids.set(part.ok_or(DecodeError::invalid("exchange of IDs"))?, IdExchange::read(r)?);
    }
    Ok(ids)
}

impl Connection {
    /// Gives the peer another connection ID for its records to this end, to be used immediately.
    /// Has no effect in DTLS 1.2, if the peer's records carry no connection ID, and before the
    /// handshake is complete.
    pub fn rotate_connection_id(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !self.channel.own_ids.is_empty() && self.channel.flight.has_spare_numbers() {
            self.want_to_give(1, ConnectionIdUsage::Immediate);
        }
    }

    /// Requests `count` spare connection IDs of the peer for the records to it. One of them is used
    /// whenever the peer's address changes. Has no effect in DTLS 1.2, if records to the peer carry
    /// no connection ID, before the handshake is complete, and while the last request is not
    /// answered.
    pub fn request_connection_ids(&mut self, now: Instant, count: u8) {
        self.now = self.now.max(now);
        if self.has_newer_ids()
            && !self.channel.send_cid.is_empty()
            && !self.ids.get().is_some_and(|ids| ids.asked)
            && self.channel.flight.has_spare_numbers()
            && let Some(ids) = self.id_exchange()
        {
            ids.ask = Some(count);
        }
    }

    /// The connection IDs that records to this end may carry (RFC 9146; RFC 9147, section 9): those that
    /// the peer was given and has not retired. None if none was negotiated.
    pub fn own_ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.channel.own_ids.iter()
    }

    /// Whether records to the peer carry a connection ID.
    pub fn sends_with_id(&self) -> bool {
        !self.channel.send_cid.is_empty()
    }

    /// Whether records to this end carry a connection ID.
    pub fn has_own_ids(&self) -> bool {
        !self.channel.own_ids.is_empty()
    }

    /// The exchange of connection IDs, which begins here if it has not; `None` in a build without
    /// connection IDs.
    fn id_exchange(&mut self) -> Option<&mut IdExchange> {
        let part = parts::ConnectionIds::INCLUDED?;
        Some(self.ids.get_or_insert_with(part, IdExchange::default))
    }

    fn has_newer_ids(&self) -> bool {
        self.is_established() && !self.is_12()
    }

    fn want_to_give(&mut self, count: usize, usage: ConnectionIdUsage) {
        if !self.has_newer_ids() {
            return;
        }
        let Some(ids) = self.id_exchange() else { return };
        ids.give = Some(match ids.give {
            Some((more, ConnectionIdUsage::Immediate)) => {
                (more.max(count), ConnectionIdUsage::Immediate)
            }
            Some((more, ConnectionIdUsage::Spare)) => (more.max(count), usage),
            None => (count, usage),
        });
    }

    /// Whether a message about IDs may be sent: one post-handshake message at a time.
    fn may_send_about_ids(&self) -> bool {
        self.has_newer_ids() && self.channel.flight.is_done() && self.key_update.is_idle()
    }

    /// The number of fresh IDs that this end is to give its peer now.
    pub(crate) fn ids_wanted(&self) -> Option<usize> {
        let (count, _) = self.ids.get()?.give.filter(|_| self.may_send_about_ids())?;
        Some(count)
    }

    /// Gives the peer these IDs, which no other association has.
    pub(crate) fn give_ids(&mut self, fresh: &[ConnectionId]) {
        let Some((_, usage)) = self.ids.get_mut().and_then(|ids| ids.give.take()) else { return };
        // A request is answered even if there are no IDs to give.
        if fresh.is_empty() && usage == ConnectionIdUsage::Immediate {
            return;
        }
        let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch) else { return };
        let room = 3 + fresh.iter().map(|cid| 1 + cid.len()).sum::<usize>();
        let ids = fresh.iter().map(|cid| &**cid);
        match message_body(room, |w| write_new_connection_id(ids, usage, w)) {
            Ok(body) => {
                if self.push_message(epoch, HandshakeType::NEW_CONNECTION_ID, body) {
                    self.channel.own_ids.add(fresh);
                }
            }
            Err(fault) => self.fail(fault),
        }
    }

    /// Sends messages about connection IDs that are due. An endpoint draws the IDs of its
    /// associations itself.
    pub(super) fn start_id_messages(&mut self) {
        if let (Role::Client(..), Some(count)) = (&self.role, self.ids_wanted()) {
            let mut fresh: Vec<ConnectionId> = Vec::with_capacity(count);
            while fresh.len() < count {
                let cid = ConnectionId::random(&mut self.channel.rng, self.cid.len() as u8);
                // All IDs of a short length may be in use.
                if fresh.contains(&cid) || self.channel.own_ids.contains(&cid) {
                    break;
                }
                fresh.push(cid);
            }
            self.give_ids(&fresh);
        }
        if self.ids.get().is_some_and(|ids| ids.ask.is_some())
            && self.may_send_about_ids()
            && let Some(num_cids) = self.ids.get_mut().and_then(|ids| ids.ask.take())
            && let Some(epoch) = self.channel.send.peek().map(SendEpoch::epoch)
            && let Ok(body) = message_body(1, |w| RequestConnectionId { num_cids }.write(w))
        {
            let asked = self.push_message(epoch, HandshakeType::REQUEST_CONNECTION_ID, body);
            if let Some(ids) = self.ids.get_mut() {
                ids.asked = asked;
            }
        }
    }

    /// Processes the peer's request for more IDs.
    pub(super) fn ids_requested(&mut self, message: &Message) -> Result<(), Fault> {
        if self.channel.own_ids.is_empty() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let RequestConnectionId { num_cids } = RequestConnectionId::decode(&message.body)?;
        let count = self.channel.own_ids.room().min(num_cids.into());
        if count == 0
            && let Some(ids) = self.id_exchange()
        {
            ids.vain_requests += 1;
            if ids.vain_requests > MAX_VAIN_ID_REQUESTS {
                return Err(Misbehaviour::TooManyIdsRequested.into());
            }
        }
        self.want_to_give(count, ConnectionIdUsage::Spare);
        Ok(())
    }

    /// Processes IDs that the peer gave for records to it.
    pub(super) fn ids_given(&mut self, message: &Message) -> Result<(), Fault> {
        if self.channel.send_cid.is_empty() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let given = NewConnectionId::decode(&message.body)?;
        // A longer ID than the first one would leave less room for payloads than the application
        // was told.
        let longest = self.agreed().map_or(0, |agreed| agreed.send_cid.len());
        let mut usable = given
            .iter()
            .filter_map(ConnectionId::new)
            .filter(|cid| (1..=longest).contains(&cid.len()));
        let Some(ids) = self.id_exchange() else { return Ok(()) };
        ids.asked = false;
        let immediate = match given.usage {
            ConnectionIdUsage::Immediate => {
                let cid = usable.next().ok_or(Misbehaviour::illegal("connection ID"))?;
                ids.spare.clear();
                Some(cid)
            }
            ConnectionIdUsage::Spare => None,
        };
        let room = MAX_SPARE_IDS.saturating_sub(ids.spare.len());
        ids.spare.extend(usable.take(room));
        if let Some(cid) = immediate {
            self.channel.set_send_cid(cid);
        }
        Ok(())
    }

    /// The number of spare IDs that the peer gave.
    pub(super) fn spare_ids(&self) -> usize {
        self.ids.get().map_or(0, |ids| ids.spare.len())
    }

    /// Changes to the next spare ID, if there is one.
    pub(super) fn use_spare_id(&mut self) {
        if let Some(cid) = self.ids.get_mut().and_then(|ids| ids.spare.pop_front()) {
            self.channel.set_send_cid(cid);
        }
    }
}
