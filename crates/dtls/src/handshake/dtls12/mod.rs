//! The handshake of DTLS 1.2 (RFC 6347, section 4.2): here with PSKs (RFC 4279; RFC 5489), and in
//! [`certificates`] with certificates and raw public keys.
//!
//! ```text
//! client: WaitServerHello -> WaitHelloDone ----> WaitServerFinished -> Established
//!                      `------ resumed ---------´
//! server: (stateless greeting) -> WaitKeyExchange -> WaitClientFinished -> Established
//!                      `------ resumed -----------------´
//! ```
//!
//! ChangeCipherSpec needs no state, because records state their epoch. It is sent, and ignored when
//! it is received.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod hello_decision;
pub(crate) mod server;

use super::negotiated_extensions::NegotiatedExtensions;
use super::reassembly::Message;
use super::session::{Owner, Session, Ticket};
use super::{
    Channel, Established, EstablishedKeys, EstablishedKeys12, Negotiated, OfferedSchemes,
    RenegotiationRefusal, log_line,
};
use crate::codepoints::HandshakeType;
use crate::config::{ProtocolVersion, Settings};
use crate::credential::PeerKey;
use crate::crypto::{
    CipherSuite12, Hash, HashValue, MasterSecret12, NamedGroup, PremasterSecret, Transcript,
};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::parameters::Parameters;
use crate::messages::fragment::transcript_header_12;
use crate::parts::{self, Certificates, Dtls12, InlineState, OfPart, PartState};
use crate::record::epochs::EPOCH_12;
use crate::record::{ReceiveEpoch, SendEpoch};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use subtle::ConstantTimeEq;

/// The length of `verify_data` in bytes (RFC 5246, section 7.4.9).
const VERIFY_DATA: usize = 12;

/// The handshake's messages in the form that DTLS 1.2 hashes (RFC 6347, section 4.2.6): their hash,
/// and their bytes while the client may have to sign them.
#[derive(Debug)]
struct Messages {
    transcript: Transcript,
    bytes: PartState<Certificates, Vec<u8>>,
}

impl Messages {
    fn new(hash: &'static dyn Hash) -> Self {
        Self { transcript: Transcript::new(hash), bytes: PartState::EMPTY }
    }

    /// Keeps the bytes of the messages from the first one on. They are as long as what the reassembly
    /// accepts: one ClientHello and at most six other messages.
    fn keep(&mut self, part: Certificates) {
        self.bytes.get_or_insert_with(part, Vec::new);
    }

    /// Gives the memory of the bytes back.
    fn forget(&mut self) {
        self.bytes.clear();
    }

    /// The bytes of all messages; none unless they are kept.
    fn bytes(&self) -> &[u8] {
        self.bytes.get().map_or(&[], |bytes| bytes)
    }

    fn hash(&self) -> HashValue {
        self.transcript.hash()
    }

    /// Appends a message.
    fn absorb(&mut self, kind: HandshakeType, sequence: u16, body: &[u8]) {
        let header = transcript_header_12(kind, body.len(), sequence);
        self.transcript.update(&header);
        self.transcript.update(body);
        if let Some(bytes) = self.bytes.get_mut() {
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(body);
        }
    }

    fn absorb_message(&mut self, message: &Message) {
        self.absorb(message.kind, message.sequence, &message.body);
    }

    /// Sends a message and appends it.
    fn send(&mut self, channel: &mut Channel, epoch: u64, kind: HandshakeType, body: Vec<u8>) {
        self.absorb(kind, channel.flight.next_sequence(), &body);
        channel.flight.push(epoch, kind, body);
    }
}

/// What the two hellos negotiated.
#[derive(Debug)]
struct Hellos {
    part: Dtls12,
    suite: &'static CipherSuite12,
    client_random: [u8; 32],
    server_random: [u8; 32],
    extended_master: bool,
    resumed: bool,
    agreed: NegotiatedExtensions,
    messages: Messages,
}

impl Hellos {
    /// The master secret of a new session.
    fn master(&self, premaster: PremasterSecret) -> MasterSecret12 {
        if self.extended_master {
            premaster.into_extended_master(&self.messages.hash())
        } else {
            premaster.into_master(&self.client_random, &self.server_random)
        }
    }
}

/// The end of the association that this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeRole {
    Client,
    Server,
}

/// The keys are known and installed; the peer still has to prove that it has them.
#[derive(Debug)]
pub(crate) struct KeysInstalled {
    hellos: Box<Hellos>,
    end: HandshakeRole,
    master: MasterSecret12,
    group: Option<NamedGroup>,
    owner: Owner,
    /// The session ID, and for a client the ticket if it receives one.
    session_id: Vec<u8>,
    ticket: Option<Ticket>,
    protocol: PartState<parts::Alpn, Vec<u8>>,
}

impl KeysInstalled {
    /// Installs the keys of both directions.
    #[expect(clippy::too_many_arguments, reason = "everything that the handshake has negotiated")]
    fn new(
        hellos: Box<Hellos>,
        end: HandshakeRole,
        master: MasterSecret12,
        group: Option<NamedGroup>,
        owner: Owner,
        session_id: Vec<u8>,
        settings: &Settings,
        channel: &mut Channel,
    ) -> Self {
        log_line(settings, "CLIENT_RANDOM", &hellos.client_random, master.as_bytes());
        let keys = master.keys(hellos.suite, &hellos.client_random, &hellos.server_random);
        let (send, receive) = match end {
            HandshakeRole::Client => (keys.client, keys.server),
            HandshakeRole::Server => (keys.server, keys.client),
        };
        let (suite, agreed) = (hellos.suite, &hellos.agreed);
        channel.send.install(SendEpoch::dtls12(EPOCH_12, suite, send, agreed.send_cid));
        let receive = ReceiveEpoch::dtls12(EPOCH_12, suite, receive, agreed.receive_cid);
        channel.receive.install(receive).limit(agreed.receive_limit);
        let protocol = hellos.agreed.application_protocol(settings);
        Self { hellos, end, master, group, owner, session_id, ticket: None, protocol }
    }

    /// Sends our Finished.
    fn send_finished(&mut self, channel: &mut Channel) {
        let hash = self.hellos.messages.hash();
        let verify_data = match self.end {
            HandshakeRole::Client => self.master.client_finished(&hash),
            HandshakeRole::Server => self.master.server_finished(&hash),
        };
        let messages = &mut self.hellos.messages;
        messages.send(channel, EPOCH_12, HandshakeType::FINISHED, verify_data.to_vec());
    }

    /// Verifies the peer's Finished.
    fn check_finished(&mut self, message: &Message) -> Result<(), Fault> {
        super::expect_epoch(message, EPOCH_12)?;
        let hash = self.hellos.messages.hash();
        let expected: [u8; VERIFY_DATA] = match self.end {
            HandshakeRole::Client => self.master.server_finished(&hash),
            HandshakeRole::Server => self.master.client_finished(&hash),
        };
        if !bool::from(expected.ct_eq(&message.body)) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        self.hellos.messages.absorb_message(message);
        Ok(())
    }

    /// Whether the ends share a PSK.
    const fn has_psk(&self) -> bool {
        matches!(self.owner, Owner::Psk(_))
    }

    /// The key that the peer has proved.
    fn peer(&self) -> Option<&PeerKey> {
        match &self.owner {
            Owner::Psk(_) => None,
            Owner::Certificates(owner) => owner.peer.as_ref(),
        }
    }

    fn established(self) -> Box<Established> {
        let Hellos {
            part,
            suite,
            client_random,
            server_random,
            extended_master,
            resumed,
            agreed,
            ..
        } = *self.hellos;
        let certificates = self.owner.authenticated();
        let psk_identity = self.owner.psk_identity().to_vec();
        let key_check = self.owner.key_check();
        let session = InlineState::new(parts::Resumption12::INCLUDED, |part| {
            Box::new(Session {
                part,
                suite: suite.id,
                extended_master,
                master: self.master.clone(),
                owner: self.owner,
                id: self.session_id,
                ticket: self.ticket,
            })
        });
        Box::new(Established {
            offered: OfferedSchemes::default(),
            keys: EstablishedKeys::Dtls12(OfPart::new(
                part,
                Box::new(EstablishedKeys12 {
                    suite,
                    master: self.master,
                    session,
                    client_random,
                    server_random,
                    refusal: RenegotiationRefusal::None,
                }),
            )),
            parameters: Parameters::new(Negotiated {
                version: ProtocolVersion::Dtls12,
                suite: suite.id,
                suite_name: suite.name,
                group: self.group,
                psk_identity,
                key_check,
                send: Scheme::Plain,
                receive: Scheme::Plain,
                resumed,
                early_data: false,
                extended_master,
                record_limit: agreed.record_limit,
                send_cid: agreed.send_cid,
                receive_cid: agreed.receive_cid,
                return_routability: agreed.return_routability,
                certificates,
                protocol: self.protocol,
            }),
        })
    }
}
