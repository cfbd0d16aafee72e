//! Security parameters, the group's keys, and the individual keys of listeners (sections 5.3 and
//! 5.5).
//!
//! ```text
//! PremasterSecret ──► MasterSecret12 ──► GroupKeys ──► IndividualKey
//!                                                      one for each pair of listener and sender
//! ```

use super::record::{Opener, RecordKey, Sealer};
use super::suite::{RecordSuite, Suite};
use crate::{GroupId, SenderId};
use core::fmt;
use core::net::IpAddr;
use lightseal_dtls::crypto::{MasterSecret12, Prf12, Sha256};
use zeroize::Zeroizing;

/// The maximum total length in bytes of a MAC key and an encryption key. A suite has only one of
/// the two.
const MOST_KEYS: usize = 32;
/// The maximum length in bytes of a fixed IV.
const MOST_IV: usize = 12;
const KEY_DERIVATION: &[u8] = b"key derivation";

/// The end of a DTLS 1.2 connection whose keys a member uses. A member with both roles has the
/// parameters of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// A sender. Requests are sealed under the server write keys.
    Server,
    /// A listener. Responses are sealed under its individual keys and the client write IV.
    Client,
}

/// The parameters that every member gets from the controller (section 5.3; RFC 5246, section 6.1).
/// All except `entity` are the same for all members.
#[derive(Clone, Debug)]
pub struct SecurityParameters<S: RecordSuite = Suite> {
    /// The member's role.
    pub entity: ConnectionEnd,
    /// The cipher suite, which determines all lengths. The hash is SHA-256.
    pub suite: S,
    /// The master secret, from
    /// [`PremasterSecret::from_bytes`](lightseal_dtls::crypto::PremasterSecret::from_bytes) and
    /// `into_master`, or from its bytes.
    pub master_secret: MasterSecret12,
    /// `client_random`, 32 bytes.
    pub client_random: [u8; 32],
    /// `server_random`, 32 bytes.
    pub server_random: [u8; 32],
}

impl<S: RecordSuite> SecurityParameters<S> {
    /// Derives the group's keys.
    pub fn group_keys(&self) -> GroupKeys<S> {
        GroupKeys::new(self.suite, &self.master_secret, &self.client_random, &self.server_random)
    }
}

/// The group's keys, which are the same for all members.
///
/// ```text
/// | client MAC key | server MAC key | client key | server key | client IV | server IV |
/// ```
///
/// All senders share the server write key. Their nonces differ in epoch, SenderID and number.
/// Therefore a SenderID must belong to one member only within an epoch, and no epoch number may be
/// used twice with these keys.
pub struct GroupKeys<S: RecordSuite = Suite> {
    suite: S,
    block: Zeroizing<[u8; 2 * (MOST_KEYS + MOST_IV)]>,
}

/// The part of the key block that belongs to one side.
pub(super) struct WriteKeys<'a> {
    pub(super) mac_key: &'a [u8],
    pub(super) enc_key: &'a [u8],
    pub(super) iv: &'a [u8],
}

impl<S: RecordSuite> GroupKeys<S> {
    /// Derives the key block with the label "key expansion" (RFC 5246, section 6.3).
    pub(crate) fn new(
        suite: S,
        master_secret: &MasterSecret12,
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Self {
        let mut block = Zeroizing::new([0; 2 * (MOST_KEYS + MOST_IV)]);
        let len = 2 * (suite.mac_key_len() + suite.enc_key_len() + suite.fixed_iv_len());
        master_secret.key_block(client_random, server_random, &mut block[..len]);
        Self { suite, block }
    }

    /// The suite.
    pub const fn suite(&self) -> S {
        self.suite
    }

    /// The client write keys and the server write keys, in this order.
    pub(super) fn write_keys(&self) -> [WriteKeys<'_>; 2] {
        let (mac_keys, rest) = self.block.split_at(2 * self.suite.mac_key_len());
        let (enc_keys, rest) = rest.split_at(2 * self.suite.enc_key_len());
        let iv_len = self.suite.fixed_iv_len();
        let halves = [
            mac_keys.split_at(self.suite.mac_key_len()),
            enc_keys.split_at(self.suite.enc_key_len()),
            rest[..2 * iv_len].split_at(iv_len),
        ];
        let [mac, enc, iv] = halves;
        [
            WriteKeys { mac_key: mac.0, enc_key: enc.0, iv: iv.0 },
            WriteKeys { mac_key: mac.1, enc_key: enc.1, iv: iv.1 },
        ]
    }

    fn request_key(&self) -> RecordKey<S> {
        let [_, server] = self.write_keys();
        let aead = self.suite.protection(server.mac_key, server.enc_key, server.iv);
        RecordKey::new(self.suite, aead)
    }

    fn response_key(&self, individual: &IndividualKey) -> RecordKey<S> {
        let [client, _] = self.write_keys();
        let (mac_key, enc_key) = individual.bytes(self.suite).split_at(self.suite.mac_key_len());
        let aead = self.suite.protection(mac_key, enc_key, client.iv);
        RecordKey::new(self.suite, aead)
    }

    /// The keys with which `sender` seals its requests (section 5.4).
    pub fn request_sealer(&self, epoch: u16, sender: SenderId) -> Sealer<S> {
        Sealer::new(self.request_key(), epoch, sender.0)
    }

    /// The keys with which a listener opens the requests of all senders.
    pub fn request_opener(&self, epoch: u16) -> Opener<S> {
        Opener::of_requests(self.request_key(), epoch)
    }

    /// The key for the responses of `listener` to `sender` (section 5.5). An IPv4 address enters
    /// the derivation in its IPv4-mapped form.
    ///
    /// If the suite encrypts, the secret of the derivation is client write key ‖ server write key.
    /// The NULL suite has no such keys, and an empty secret would give the same keys in all groups,
    /// so its secret is client write MAC key ‖ server write MAC key.
    pub fn individual(&self, listener: IpAddr, sender: SenderId) -> IndividualKey {
        let [client, server] = self.write_keys();
        let [client, server] = if self.suite.encrypts() {
            [client.enc_key, server.enc_key]
        } else {
            [client.mac_key, server.mac_key]
        };
        let mut secret = Zeroizing::new([0; 2 * MOST_KEYS]);
        let (first, second) = secret.split_at_mut(client.len());
        first.copy_from_slice(client);
        second[..server.len()].copy_from_slice(server);
        let prf = Prf12::new(&Sha256, &secret[..client.len() + server.len()]);

        let listener = match listener {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut key = IndividualKey(Zeroizing::new([0; MOST_KEYS]));
        let len = self.suite.mac_key_len() + self.suite.enc_key_len();
        prf.fill(&[KEY_DERIVATION, &listener.octets(), &[sender.0]], &mut key.0[..len]);
        key
    }

    /// The keys with which a listener seals its responses to one sender (section 5.6). If the
    /// sealer is created again in the same epoch it has the same key, so the record numbers must
    /// continue.
    pub fn response_sealer(
        &self,
        individual: &IndividualKey,
        epoch: u16,
        group: GroupId,
    ) -> Sealer<S> {
        Sealer::new(self.response_key(individual), epoch, group.alias())
    }

    /// The keys with which a sender opens the responses of one listener. Setting up the cipher is
    /// cheap compared with receiving a datagram, so a sender can do it for each record instead of
    /// keeping openers for thousands of listeners.
    pub fn response_opener(
        &self,
        individual: &IndividualKey,
        epoch: u16,
        group: GroupId,
    ) -> Opener<S> {
        Opener::of_responses(self.response_key(individual), epoch, group.alias())
    }
}

impl<S: RecordSuite> fmt::Debug for GroupKeys<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKeys(..)")
    }
}

/// The client write MAC key and encryption key for the responses of one listener to one sender, 32
/// bytes at most. The IV is the group's client write IV.
///
/// The key is valid for one suite, one group's keys, one listener's address and one sender.
#[derive(Clone)]
pub struct IndividualKey(Zeroizing<[u8; MOST_KEYS]>);

impl IndividualKey {
    /// MAC key ‖ encryption key.
    pub(super) fn bytes(&self, suite: impl RecordSuite) -> &[u8] {
        &self.0[..suite.mac_key_len() + suite.enc_key_len()]
    }
}

impl fmt::Debug for IndividualKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndividualKey(..)")
    }
}
