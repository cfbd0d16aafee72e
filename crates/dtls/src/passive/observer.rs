//! Assigns datagrams to associations.

use super::association::{Association, ObserverConfig};
use super::{Record, Secrets, Sender, Verdict};
use crate::codepoints::{ContentType, HandshakeType};
use crate::config::NumberMasks;
use crate::crypto::Provider;
use crate::messages::Fragment;
use crate::record::Header12;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_core::{Decode, Reader};

/// The number of associations remembered; beyond it the oldest are dropped.
const ASSOCIATIONS: usize = 16_384;
/// The number of address pairs remembered.
const FLOWS: usize = 4 * ASSOCIATIONS;

/// Decrypts the datagrams of any number of associations.
///
/// Associations are told apart by addresses, ClientHellos and connection IDs. At most 16,384 are
/// remembered. Each takes some 50 KiB for every epoch with shared tags, and little otherwise.
pub struct Observer {
    known: ObserverConfig,
    serial: u64,
    next: u64,
    associations: BTreeMap<u64, Association>,
    /// Association and sending end, by source and destination address.
    flows: BTreeMap<(SocketAddr, SocketAddr), (u64, Sender)>,
    verdicts: VecDeque<Verdict>,
}

impl Observer {
    /// Creates an observer with these secrets.
    pub fn new(provider: &'static Provider, secrets: Secrets) -> Self {
        let known = ObserverConfig { provider, secrets, masks: NumberMasks::Standard };
        let (associations, flows) = (BTreeMap::new(), BTreeMap::new());
        Self { known, serial: 0, next: 0, associations, flows, verdicts: VecDeque::new() }
    }

    /// Sets how the ends encrypt the record numbers of aggregated records, which is not negotiated.
    #[must_use]
    pub const fn with_masks(mut self, masks: NumberMasks) -> Self {
        self.known.masks = masks;
        self
    }

    /// Decrypts a datagram in place and returns its records in order.
    pub fn datagram(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
    ) -> Vec<Record> {
        let (id, sender) = self.find(from, to, datagram);
        let Some(association) = self.associations.get_mut(&id) else { return Vec::new() };
        let records = association.datagram(&self.known, sender, datagram, self.serial);
        self.serial += records.len() as u64;
        let verdicts = association.take_verdicts().into_iter();
        self.verdicts.extend(verdicts.map(|(serial, proof)| Verdict { serial, proof }));
        records
    }

    /// The next verdict on a record that was [`Proof::Pending`](super::Proof::Pending). Each such
    /// record gets one verdict, the last ones after [`Self::finish`].
    pub fn next_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    /// Ends the input: verdicts on all pending records follow.
    pub fn finish(&mut self) {
        while let Some((_, association)) = self.associations.pop_first() {
            self.end(association);
        }
        self.flows.clear();
    }

    fn end(&mut self, mut association: Association) {
        association.finish();
        let verdicts = association.take_verdicts().into_iter();
        self.verdicts.extend(verdicts.map(|(serial, proof)| Verdict { serial, proof }));
    }

    /// The association of a datagram, and which of its ends sent it.
    fn find(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> (u64, Sender) {
        let flow = self.flows.get(&(from, to)).copied();
        let known = |id| self.associations.get(id).and_then(Association::random);
        if let Some(random) = client_random(datagram) {
            return match flow {
                Some((id, Sender::Client)) if known(&id) == Some(&random) => (id, Sender::Client),
                _ => self.begin(from, to, Some(random)),
            };
        }
        if let Some(found) = flow {
            return found;
        }
        if let Some((id, sender)) = self.moved(datagram) {
            self.remember(from, to, id, sender);
            return (id, sender);
        }
        self.begin(from, to, None)
    }

    /// Whether a datagram belongs to an association that this observer knows already, by addresses
    /// or by a connection ID. Datagrams of other protocols may look like an encrypted record.
    pub fn knows(&self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> bool {
        self.flows.contains_key(&(from, to)) || self.moved(datagram).is_some()
    }

    /// The association and end whose connection ID a datagram from a new address carries.
    fn moved(&self, datagram: &[u8]) -> Option<(u64, Sender)> {
        let mut newest = self.associations.iter().rev();
        newest.find_map(|(id, known)| Some((*id, known.sender_of(datagram)?)))
    }

    fn begin(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        random: Option<[u8; 32]>,
    ) -> (u64, Sender) {
        if self.associations.len() == ASSOCIATIONS
            && let Some((oldest, association)) = self.associations.pop_first()
        {
            self.end(association);
            self.flows.retain(|_, (id, _)| *id != oldest);
        }
        let id = self.next;
        self.next += 1;
        self.associations.insert(id, Association::new(id, random));
        self.remember(from, to, id, Sender::Client);
        (id, Sender::Client)
    }

    fn remember(&mut self, from: SocketAddr, to: SocketAddr, id: u64, sender: Sender) {
        while self.flows.len() + 2 > FLOWS {
            self.flows.pop_first();
        }
        self.flows.insert((from, to), (id, sender));
        self.flows.insert((to, from), (id, sender.other()));
    }
}

impl core::fmt::Debug for Observer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Observer({} associations, {:?})", self.associations.len(), self.known.secrets)
    }
}

/// The random of the ClientHello with which a datagram begins.
fn client_random(datagram: &[u8]) -> Option<[u8; 32]> {
    let header = Header12::read(datagram, 0).ok()?;
    if header.kind != ContentType::HANDSHAKE || header.epoch != 0 {
        return None;
    }
    let content = datagram.get(header.len..)?;
    let fragment = Fragment::read(&mut Reader::new(content)).ok()?;
    if fragment.kind != HandshakeType::CLIENT_HELLO || fragment.offset != 0 {
        return None;
    }
    // The random follows legacy_version.
    fragment.body.get(2..)?.first_chunk().copied()
}
