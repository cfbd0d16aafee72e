//! The handshake. Each state is one struct, which is moved by value into the next state and has
//! only the secrets that it may use.
//!
//! The states of DTLS 1.3 ([`dtls12`] has the states of 1.2, which begin with the same first one):
//!
//! ```text
//! client: WaitServerHello -> WaitEncryptedExtensions -> WaitFinished -> Established
//! server: (stateless greeting) -> WaitFinished -> Established
//! ```
//!
//! Handshakes with certificates or raw public keys have further states ([`certificates`]). A state
//! in brackets is passed through only if the server asks the client for a certificate, or if an
//! end's own key signs later:
//!
//! ```text
//! client: WaitEncryptedExtensions -> WaitServerCertificate -> WaitServerCertificateVerify
//!         -> WaitFinished -> [WaitClientSignature] -> Established
//! server: (stateless greeting) -> [WaitServerSignature] -> [WaitClientCertificate
//!         -> WaitClientCertificateVerify] -> WaitFinished -> Established
//! ```

pub(crate) mod certificates;
pub(crate) mod client;
pub mod cookie;
pub(crate) mod dtls12;
pub(crate) mod early;
mod established;
pub(crate) mod flight;
pub(crate) mod grease;
pub(crate) mod hello_context;
pub(crate) mod hello_decision;
mod keys;
pub(crate) mod negotiated_extensions;
pub(crate) mod parameters;
pub(crate) mod psk;
pub(crate) mod random;
pub(crate) mod ranges;
pub(crate) mod reassembly;
mod replaced_secrets;
pub(crate) mod resumption;
pub(crate) mod server;
pub(crate) mod session;
mod state;
pub(crate) mod ticket_keys;

pub(crate) use established::{
    Established, EstablishedKeys, EstablishedKeys12, OfferedSchemes, RenegotiationRefusal,
    keep_exporter,
};
pub(crate) use state::{Progress, State};

use crate::codepoints::{HandshakeType, MAX_CONTENT, PskKeyExchangeMode};
use crate::config::{KeyCheck, NumberMasks, ProtocolVersion, Settings};
use crate::credential::{Identity, PeerKey};
use crate::crypto::{CipherSuite, CipherSuiteId, NamedGroup, TrafficSecret, Transcript};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::fragment::transcript_header;
use crate::parts::{self, InlineState, PartState};
use crate::record::epochs::APPLICATION_EPOCH;
use crate::record::own_ids::OwnIds;
use crate::record::{ConnectionId, ReceiveEpoch, ReceiveEpochs, SendEpoch, SendEpochs};
use alloc::string::String;
use alloc::vec::Vec;
use certificates::AuthenticatedPeer;
use core::fmt;
use core::num::NonZeroU64;
use flight::Flight;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};
use negotiated_extensions::NegotiatedExtensions;
pub(crate) use random::KeptRandom;
use reassembly::Message;
use replaced_secrets::ReplacedSecrets;

/// What the handshake states act upon: epochs, flight, and what they negotiate about records.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) rng: KeptRandom,
    pub(crate) flight: Flight,
    pub(crate) send: SendEpochs,
    pub(crate) receive: ReceiveEpochs,
    /// The next record number of epoch 0.
    pub(crate) plaintext_next: u64,
    /// The longest content that this end may send in a record, in bytes, as far as it is
    /// negotiated.
    pub(crate) record_limit: u16,
    /// The longest content of a data record that this end receives, in bytes, inner content type
    /// and padding included.
    pub(crate) receive_limit: u16,
    /// The connection ID in records that this end sends, once it is negotiated; empty if there is
    /// none.
    pub(crate) send_cid: ConnectionId,
    /// The connection IDs in records that this end receives.
    pub(crate) own_ids: OwnIds,
    /// The security level in bits at which data is delivered; `None`: only when it is verified.
    delivered_from: InlineState<parts::EarlyDelivery, Option<u8>>,
    /// Whether the fates of the peer's records are recorded.
    watches: Option<parts::Adaptation>,
    /// How the record numbers of aggregated records are encrypted.
    pub(crate) masks: NumberMasks,
    /// Whether the receiving secrets of replaced epochs are kept.
    keeps_replaced: Option<parts::ReplacedSecrets>,
    pub(crate) replaced: PartState<parts::ReplacedSecrets, ReplacedSecrets>,
}

impl Channel {
    pub(crate) fn new(
        rng: KeptRandom,
        settings: &Settings,
        next_message: u16,
        next_record: u64,
    ) -> Self {
        Self {
            keeps_replaced: settings.keeps_replaced_secrets(),
            replaced: PartState::EMPTY,
            rng,
            flight: Flight::starting_at(next_message),
            send: SendEpochs::default(),
            receive: ReceiveEpochs::default(),
            plaintext_next: next_record,
            record_limit: MAX_CONTENT as u16,
            receive_limit: MAX_CONTENT as u16 + 1,
            send_cid: ConnectionId::EMPTY,
            own_ids: OwnIds::NONE,
            delivered_from: InlineState::new(parts::EarlyDelivery::INCLUDED, |_| {
                settings.delivery.threshold()
            }),
            watches: parts::Adaptation::INCLUDED.filter(|_| settings.adapt.is_some()),
            masks: settings.number_masks,
        }
    }

    /// Sets the connection IDs that protected records carry from now on.
    pub(crate) fn agree_on_cids(&mut self, agreed: &NegotiatedExtensions) {
        self.send_cid = agreed.send_cid;
        self.own_ids = OwnIds::agreed(agreed.receive_cid);
    }

    /// Sets the connection ID that sent records of DTLS 1.3 carry from now on.
    pub(crate) fn set_send_cid(&mut self, cid: ConnectionId) {
        self.send_cid = cid;
        self.send.set_cid(cid);
    }

    /// Adds a sending epoch of DTLS 1.3.
    pub(crate) fn install_send(&mut self, mut epoch: SendEpoch) {
        epoch.set_cid(self.send_cid);
        self.send.install(epoch);
    }

    /// Adds a receiving epoch of DTLS 1.3.
    pub(crate) fn install_receive(&mut self, epoch: ReceiveEpoch) {
        let epoch = self.receive.install(epoch);
        epoch.deliver_from(self.delivered_from.get().copied().flatten());
        if epoch.epoch() >= APPLICATION_EPOCH {
            epoch.limit(self.receive_limit.into());
            if self.watches.is_some() {
                epoch.watch();
            }
        }
    }

    pub(crate) fn install(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        send: (&TrafficSecret, Scheme),
        receive: (&TrafficSecret, Scheme),
    ) {
        self.install_sending(epoch, suite, send);
        self.install_receiving(epoch, suite, receive);
    }

    /// The sending half of [`Self::install`].
    pub(crate) fn install_sending(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        (secret, scheme): (&TrafficSecret, Scheme),
    ) {
        self.install_send(SendEpoch::with_masks(epoch, suite, scheme, secret, self.masks));
    }

    /// The receiving half of [`Self::install`].
    pub(crate) fn install_receiving(
        &mut self,
        epoch: u64,
        suite: &'static CipherSuite,
        (secret, scheme): (&TrafficSecret, Scheme),
    ) {
        if epoch < APPLICATION_EPOCH {
            self.keep_replaced(epoch, secret);
        }
        self.install_receive(ReceiveEpoch::with_masks(epoch, suite, scheme, secret, self.masks));
    }

    /// Adds receiving epochs of DTLS 1.3 with their schemes, oldest first, of an association that is made
    /// again. Reads their secrets, keeps those that were replaced, and returns the newest one.
    pub(crate) fn install_all_receiving(
        &mut self,
        suite: &'static CipherSuite,
        epochs: impl Iterator<Item = (u64, Scheme)>,
        r: &mut Reader<'_>,
    ) -> Result<TrafficSecret, DecodeError> {
        let mut newest: Option<(u64, TrafficSecret)> = None;
        for (epoch, scheme) in epochs {
            if let Some((replaced, secret)) = newest.take()
                && replaced >= APPLICATION_EPOCH
            {
                self.keep_replaced(replaced, &secret);
            }
            let secret =
                TrafficSecret::new(suite.hash, r.take(suite.hash.algorithm().output_len())?);
            self.install_receiving(epoch, suite, (&secret, scheme));
            newest = Some((epoch, secret));
        }
        newest.map(|(_, secret)| secret).ok_or(DecodeError::Short)
    }
}

impl Channel {
    /// Keeps the receiving secrets of replaced epochs from now on.
    pub(crate) const fn keep_replaced_secrets(&mut self) {
        self.keeps_replaced = parts::ReplacedSecrets::INCLUDED;
    }

    /// Keeps the receiving secret of an epoch that is being replaced, or of the handshake, as long as
    /// records of the epoch are read, if the association may sleep or writes ahead.
    pub(crate) fn keep_replaced(&mut self, epoch: u64, secret: &TrafficSecret) {
        if let Some(part) = self.keeps_replaced {
            self.replaced.get_or_insert_with(part, ReplacedSecrets::default).keep(epoch, secret);
        }
    }

    /// Puts away the keys of an epoch whose secret is kept, and under which hardly any record comes.
    pub(crate) fn put_away(&mut self, epoch: u64) {
        if self.replaced_secret(epoch).is_some()
            && let Some(epoch) = self.receive.get(epoch)
        {
            epoch.put_away();
        }
    }

    /// Erases the kept secrets of all epochs before `epoch`.
    pub(crate) fn forget_replaced_before(&mut self, epoch: u64) {
        if self.replaced.get_mut().is_some_and(|kept| kept.forget_before(epoch)) {
            self.replaced.clear();
        }
    }

    /// The receiving secret of a replaced epoch, if it is kept.
    pub(crate) fn replaced_secret(&self, epoch: u64) -> Option<&TrafficSecret> {
        self.replaced.get()?.secret(epoch)
    }
}

/// The negotiated parameters of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Negotiated {
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: CipherSuiteId,
    /// The name of the cipher suite.
    pub suite_name: &'static str,
    /// The key exchange group; `None` with a PSK alone, and in a resumed session of DTLS 1.2.
    pub group: Option<NamedGroup>,
    /// The PSK identity; empty if the handshake used no PSK.
    pub psk_identity: Vec<u8>,
    /// The one of the identity's keys that the handshake used, or the session that it resumed
    /// ([`Psk::check`](crate::Psk::check)). `None` without a PSK, and of an association that has been
    /// asleep.
    pub key_check: Option<KeyCheck>,
    /// The aggregation scheme of the records that this end sends; the peer may change it.
    pub send: Scheme,
    /// The aggregation scheme of the records that the peer sends; see
    /// [`Connection::request_aggregation`](crate::Connection::request_aggregation).
    pub receive: Scheme,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether the server accepted early data (RFC 8446, section 4.2.10).
    pub early_data: bool,
    /// Whether the keys are bound to the whole handshake (RFC 7627). In DTLS 1.3 they always are.
    pub extended_master: bool,
    /// The longest content of a record that this end may send, in bytes.
    pub record_limit: usize,
    /// The connection ID in records that this end sends; empty if there is none.
    pub send_cid: ConnectionId,
    /// The connection ID in records that the peer sends; empty if there is none.
    pub receive_cid: ConnectionId,
    /// Whether return routability checks are available (RFC 9853).
    pub return_routability: bool,
    /// What is known of the peer after a handshake with certificates.
    pub(crate) certificates: PartState<parts::Certificates, AuthenticatedPeer>,
    pub(crate) protocol: PartState<parts::Alpn, Vec<u8>>,
}

impl Negotiated {
    /// The verified key of a peer that has authenticated itself with a certificate or raw public
    /// key; `None` with a PSK, and at a server whose client has not authenticated itself.
    pub fn peer_key(&self) -> Option<&PeerKey> {
        self.certificates.get()?.key.as_ref()
    }

    /// The identity of the peer: the name that its certificate proves, or else its raw public key, or the
    /// identity of the PSK; `None` for a client that has not authenticated itself. Access lists
    /// compare with all of [`peer_identities`](Self::peer_identities).
    pub fn peer_identity(&self) -> Option<Identity> {
        self.peer_identities().next()
    }

    /// All identities of the peer: of a certificate the name and the hash of the public key.
    pub fn peer_identities(&self) -> impl Iterator<Item = Identity> + '_ {
        let psk = Some(&self.psk_identity).filter(|identity| !identity.is_empty());
        let key = self.peer_key();
        let name = key.and_then(|key| key.name.clone());
        psk.map(|identity| Identity::Psk(identity.clone()))
            .into_iter()
            .chain(name.map(Identity::Subject))
            .chain(key.map(|key| Identity::Key(key.spki_sha256)))
    }

    /// The application protocol (RFC 7301); `None` if none was negotiated.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.protocol.get().map(Vec::as_slice)
    }

    /// The name of the server that the client asked for, in lower case; `None` with a PSK.
    pub fn server_name(&self) -> Option<&str> {
        self.certificates.get()?.server_name.as_deref()
    }

    /// Whether both associations have the same authenticated peer: anonymous peers are never the
    /// same.
    pub(crate) fn has_same_peer(&self, other: &Self) -> bool {
        let same_key = || {
            let keys = self.peer_key().zip(other.peer_key());
            keys.is_some_and(|(own, other)| own.spki_sha256 == other.spki_sha256)
        };
        match (&self.psk_identity[..], &other.psk_identity[..]) {
            ([], []) => same_key(),
            (own, other) => own == other,
        }
    }

    /// A digest of what [`has_same_peer`](Self::has_same_peer) compares; `None` for anonymous peers.
    /// It is FNV-1a, which is no cryptographic hash: who could choose its input has a key here.
    pub(crate) fn peer_digest(&self) -> Option<NonZeroU64> {
        let fnv = |bytes: &[u8]| {
            let step =
                |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            NonZeroU64::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step) | 1)
        };
        match &self.psk_identity[..] {
            [] => fnv(&self.peer_key()?.spki_sha256),
            identity => fnv(identity),
        }
    }

    /// The PSK key exchange mode, of a handshake with a PSK.
    pub fn psk_mode(&self) -> PskKeyExchangeMode {
        match self.group {
            Some(_) => PskKeyExchangeMode::PSK_DHE_KE,
            None => PskKeyExchangeMode::PSK_KE,
        }
    }
}

impl fmt::Display for Negotiated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, suite_name, send, receive, .. } = self;
        write!(f, "{version}, {suite_name}, ")?;
        // A resumed session of DTLS 1.2 has no key exchange.
        match (self.group, self.psk_identity.is_empty()) {
            (Some(group), false) => write!(f, "{group}")?,
            (Some(group), true) => write!(f, "{group}, certificate")?,
            (None, false) => f.write_str("PSK alone")?,
            (None, true) => f.write_str("certificate")?,
        }
        if self.resumed {
            f.write_str(", resumed")?;
        }
        write!(f, ", tags {send} out, {receive} in")
    }
}

/// Why no state was created for a client.
#[derive(Debug)]
pub(crate) enum Unaccepted {
    Fault(Fault),
    /// The client's PSK is not known yet.
    Waiting,
}

impl From<Fault> for Unaccepted {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Misbehaviour> for Unaccepted {
    fn from(misbehaviour: Misbehaviour) -> Self {
        Self::Fault(misbehaviour.into())
    }
}

impl From<Incompatibility> for Unaccepted {
    fn from(incompatibility: Incompatibility) -> Self {
        Self::Fault(incompatibility.into())
    }
}

/// Appends a message to the transcript in its TLS form.
pub(crate) fn absorb(transcript: &mut Transcript, kind: HandshakeType, body: &[u8]) {
    transcript.update(&transcript_header(kind, body.len()));
    transcript.update(body);
}

/// Fails unless a message came in the epoch to which its type belongs.
pub(crate) fn expect_epoch(message: &Message, epoch: u64) -> Result<(), Fault> {
    if message.epoch == epoch { Ok(()) } else { Err(Misbehaviour::WrongEpoch.into()) }
}

/// Writes the body of a handshake message of at most `room` bytes.
pub(crate) fn message_body(
    room: usize,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Result<Vec<u8>, Fault> {
    let mut body = alloc::vec![0; room];
    let mut w = Writer::new(&mut body);
    write(&mut w).map_err(|BufferFull| Fault::internal("handshake message too long"))?;
    let len = w.len();
    body.truncate(len);
    Ok(body)
}

/// Writes a traffic secret to the key log, if there is one.
pub(crate) fn log_secret(
    settings: &Settings,
    label: &str,
    client_random: &[u8; 32],
    secret: &TrafficSecret,
) {
    log_line(settings, label, client_random, secret.as_bytes());
}

/// Writes a line to the key log, if there is one.
pub(crate) fn log_line(settings: &Settings, label: &str, client_random: &[u8; 32], secret: &[u8]) {
    let Some(key_log) = settings.key_log() else { return };
    let mut line = String::with_capacity(label.len() + 2 + 64 + 2 * secret.len());
    line.push_str(label);
    // Without `core::fmt`, which would take a device a kilobyte.
    for bytes in [&client_random[..], secret] {
        line.push(' ');
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        line.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
    }
    key_log.log(&line);
}
