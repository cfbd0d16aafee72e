//! Security parameters, the group's keys and those of single listeners (sections 5.3 and 5.5).
//!
//! ```text
//! PremasterSecret ──► MasterSecret12 ──► GroupKeys ──► IndividualKey, one a listener and sender
//! ```

use super::record::{Opener, RecordKey, Sealer};
use super::suite::Suite;
use crate::{GroupId, SenderId};
use core::fmt;
use core::net::IpAddr;
use dtls::crypto::{MasterSecret12, Prf12};
use zeroize::Zeroizing;

/// The most bytes of a MAC key and an encryption key together: a suite has but one of them.
const MOST_KEYS: usize = 32;
/// The most bytes of a fixed IV.
const MOST_IV: usize = 12;
const KEY_DERIVATION: &[u8] = b"key derivation";

/// Which end of DTLS 1.2 a member stands for. One that is both has the parameters of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// A sender: requests are under the server write keys.
    Server,
    /// A listener: responses are under keys of its own and the client write IV.
    Client,
}

/// What every member gets from the controller (section 5.3; RFC 5246, section 6.1). All but the
/// entity is the same for all of them.
#[derive(Clone, Debug)]
pub struct SecurityParameters {
    /// The member's role.
    pub entity: ConnectionEnd,
    /// The suite, which tells all lengths; the hash is SHA-256.
    pub suite: Suite,
    /// The master secret: [`PremasterSecret::from_bytes`](dtls::crypto::PremasterSecret::from_bytes)
    /// and `into_master`, or its bytes.
    pub master_secret: MasterSecret12,
    /// The client random.
    pub client_random: [u8; 32],
    /// The server random.
    pub server_random: [u8; 32],
}

impl SecurityParameters {
    /// The group's keys.
    pub fn group_keys(&self) -> GroupKeys {
        GroupKeys::new(self.suite, &self.master_secret, &self.client_random, &self.server_random)
    }
}

/// The group's keys, which are the same for all members.
///
/// ```text
/// | client MAC key | server MAC key | client key | server key | client IV | server IV |
/// ```
///
/// A server write key is shared by all senders, and its nonces differ by epoch, SenderID and number.
/// So within an epoch a SenderID belongs to one member only, and no epoch comes back under these keys.
pub struct GroupKeys {
    suite: Suite,
    block: Zeroizing<[u8; 2 * (MOST_KEYS + MOST_IV)]>,
}

/// One side's part of the key block.
pub(super) struct WriteKeys<'a> {
    pub(super) mac_key: &'a [u8],
    pub(super) enc_key: &'a [u8],
    pub(super) iv: &'a [u8],
}

impl GroupKeys {
    /// "key expansion" (RFC 5246, section 6.3).
    fn new(
        suite: Suite,
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
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The client's and the server's.
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

    fn request_key(&self) -> RecordKey {
        let [_, server] = self.write_keys();
        let aead = self.suite.protection(server.mac_key, server.enc_key, server.iv);
        RecordKey::new(self.suite, aead)
    }

    fn response_key(&self, individual: &IndividualKey) -> RecordKey {
        let [client, _] = self.write_keys();
        let (mac_key, enc_key) = individual.bytes(self.suite).split_at(self.suite.mac_key_len());
        let aead = self.suite.protection(mac_key, enc_key, client.iv);
        RecordKey::new(self.suite, aead)
    }

    /// What `sender` seals its requests with (section 5.4).
    pub fn request_sealer(&self, epoch: u16, sender: SenderId) -> Sealer {
        Sealer::new(self.request_key(), epoch, sender.0)
    }

    /// What a listener opens the requests of all senders with.
    pub fn request_opener(&self, epoch: u16) -> Opener {
        Opener::of_requests(self.request_key(), epoch)
    }

    /// What `listener` answers `sender` with (section 5.5). IPv4 addresses are v4-mapped.
    ///
    /// With encryption keys the secret is client write key ‖ server write key. The NULL suite has
    /// none, so that the keys of all listeners of all groups would be alike: there it is client
    /// write MAC key ‖ server write MAC key.
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
        let prf = Prf12::new(&secret[..client.len() + server.len()]);

        let listener = match listener {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut key = IndividualKey(Zeroizing::new([0; MOST_KEYS]));
        let len = self.suite.mac_key_len() + self.suite.enc_key_len();
        prf.fill(&[KEY_DERIVATION, &listener.octets(), &[sender.0]], &mut key.0[..len]);
        key
    }

    /// What a listener seals its responses to one sender with (section 5.6). Built anew in the same
    /// epoch its key is the same again: its numbers go on where they were.
    pub fn response_sealer(
        &self,
        individual: &IndividualKey,
        epoch: u16,
        group: GroupId,
    ) -> Sealer {
        Sealer::new(self.response_key(individual), epoch, group.alias())
    }

    /// What a sender opens the responses of one listener with. It sets up the cipher, which is
    /// cheap beside a datagram: for each record anew, rather than kept for thousands of listeners.
    pub fn response_opener(
        &self,
        individual: &IndividualKey,
        epoch: u16,
        group: GroupId,
    ) -> Opener {
        Opener::of_responses(self.response_key(individual), epoch, group.alias())
    }
}

impl fmt::Debug for GroupKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKeys(..)")
    }
}

/// The client write MAC key and encryption key of one listener towards one sender: 32 bytes, to be
/// kept for each of them. The IV is the group's.
///
/// It is that of one suite, one group's keys and one address: with others it opens nothing.
#[derive(Clone)]
pub struct IndividualKey(Zeroizing<[u8; MOST_KEYS]>);

impl IndividualKey {
    /// MAC key ‖ encryption key.
    pub(super) fn bytes(&self, suite: Suite) -> &[u8] {
        &self.0[..suite.mac_key_len() + suite.enc_key_len()]
    }
}

impl fmt::Debug for IndividualKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndividualKey(..)")
    }
}
