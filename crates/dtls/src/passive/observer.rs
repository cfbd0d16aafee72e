//! Which association a datagram is of.

use super::association::{Association, Known};
use super::{Record, Secrets, Sender, Verdict};
use crate::codepoints::{ContentType, HandshakeType};
use crate::config::NumberMasks;
use crate::crypto::Provider;
use crate::messages::Fragment;
use crate::record::Header12;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;
use vocabulary::{Decode, Reader};

/// Associations that are remembered: the oldest go.
const ASSOCIATIONS: usize = 16_384;
/// Pairs of addresses that are remembered.
const FLOWS: usize = 4 * ASSOCIATIONS;

/// Reads the datagrams of any associations.
///
/// Associations are told apart by addresses, a new ClientHello, and connection IDs. At most
/// 16,384 are remembered; one takes some 50 KiB for each epoch with shared tags, and else little.
pub struct Observer {
    known: Known,
    serial: u64,
    next: u64,
    associations: BTreeMap<u64, Association>,
    /// By sender and receiver.
    flows: BTreeMap<(SocketAddr, SocketAddr), (u64, Sender)>,
    verdicts: VecDeque<Verdict>,
}

impl Observer {
    /// An observer that knows these secrets.
    pub fn new(provider: &'static Provider, secrets: Secrets) -> Self {
        let known = Known { provider, secrets, masks: NumberMasks::Standard };
        let (associations, flows) = (BTreeMap::new(), BTreeMap::new());
        Self { known, serial: 0, next: 0, associations, flows, verdicts: VecDeque::new() }
    }

    /// For ends that hide the numbers of aggregated records in this way: it is not negotiated.
    #[must_use]
    pub const fn with_masks(mut self, masks: NumberMasks) -> Self {
        self.known.masks = masks;
        self
    }

    /// Takes a datagram that one address sent to another, and decrypts it where it stands; its
    /// records in their order.
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

    /// What is known now of records that were [`Proof::Pending`](super::Proof::Pending). Of each
    /// of them there is one verdict, the last ones after [`Self::finish`].
    pub fn next_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    /// Nothing more comes: verdicts follow on all that is pending.
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

    /// A datagram's association and who of its ends sent it.
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

    /// Whether a datagram is of an association that this observer knows already, by addresses or by a
    /// connection ID. Other protocols may begin like an encrypted record.
    pub fn knows(&self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> bool {
        self.flows.contains_key(&(from, to)) || self.moved(datagram).is_some()
    }

    /// Who may have sent a datagram from a new address.
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

/// The random of a ClientHello that a datagram begins with.
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
    // Behind legacy_version.
    fragment.body.get(2..)?.first_chunk().copied()
}
