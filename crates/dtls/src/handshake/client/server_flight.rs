//! The client's states from the ServerHello to the end of the handshake in DTLS 1.3.

use super::certificates::{self, Answer, WaitCertificate};
use crate::codepoints::{ExtensionType, HandshakeType};
use crate::config::certificates::ForClient;
use crate::config::session::Owner;
use crate::config::{ProtocolVersion, Settings, can_aggregate};
use crate::crypto::{ApplicationSecrets, CipherSuite, KeptSecret, NamedGroup};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::certificates::offer::{Kinds, is_offered};
use crate::handshake::keys::HandshakeKeys;
use crate::handshake::negotiated_extensions::NegotiatedExtensions;
use crate::handshake::parameters::Parameters;
use crate::handshake::resumption::{Agreed, Resumption};
use crate::handshake::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, Progress, State, absorb,
    expect_epoch, keep_exporter, log_secret, negotiated_extensions,
};
use crate::messages::{EncryptedExtensions, aggregation as aggregation_extension};
use crate::parts::{self, InlineState, PartState};
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::Decode;

use crate::handshake::reassembly::Message;

/// The random bytes of the client's hello, by which the key log names a handshake.
pub(super) type LoggedRandom = lightseal_core::parts::PartState<parts::KeyLog, [u8; 32]>;

/// The ServerHello was received: the handshake keys are known.
#[derive(Debug)]
pub(crate) struct WaitEncryptedExtensions {
    pub(super) part: parts::Client,
    pub(super) random: LoggedRandom,
    pub(super) owner: Owner,
    pub(super) resumed: bool,
    /// The application protocol with which the server may accept early data, empty for none; `None`
    /// if it may not accept any.
    pub(super) early_protocol: InlineState<parts::EarlyData, Vec<u8>>,
    /// Whether the server authenticates itself with a certificate.
    pub(super) verifies: bool,
    pub(super) certificates: ForClient,
    pub(super) agreed: NegotiatedExtensions,
    pub(super) suite: &'static CipherSuite,
    pub(super) group: Option<NamedGroup>,
    pub(super) keys: Box<HandshakeKeys>,
}

impl WaitEncryptedExtensions {
    /// Processes EncryptedExtensions.
    #[inline(never)]
    pub(crate) fn encrypted_extensions(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        let extensions = EncryptedExtensions::decode(&message.body)?.extensions;
        let wanted = &settings.aggregation;
        let mut schemes = (Scheme::Plain, Scheme::Plain);
        let mut early_data = false;
        for (kind, content) in extensions.iter() {
            match kind {
                kind if kind == settings.aggregation_extension && wanted.is_wanted() => {
                    schemes = aggregation_extension::read_answer(content)?;
                }
                ExtensionType::EARLY_DATA
                    if self.early_protocol.get().is_some() && content.is_empty() =>
                {
                    early_data = true;
                }
                // The server's preferred groups are meant for later handshakes (RFC 8446, section
                // 4.2.7).
                ExtensionType::SUPPORTED_GROUPS => {}
                kind if self
                    .certificates
                    .get()
                    .is_some_and(|offered| is_offered(offered, kind)) => {}
                // Connection IDs must have been answered in the ServerHello.
                kind if negotiated_extensions::is_offered(
                    settings,
                    ProtocolVersion::Dtls13,
                    None,
                    kind,
                ) => {}
                _ => return Err(Misbehaviour::UnsolicitedExtension.into()),
            }
        }
        let (receive, send) = schemes;
        let shares = send.aggregates() || receive.aggregates();
        if shares && !(can_aggregate(self.suite) && wanted.accepts(send, receive)) {
            return Err(Misbehaviour::illegal("aggregation scheme").into());
        }
        let version = ProtocolVersion::Dtls13;
        let agreed =
            negotiated_extensions::read_limit_answer(settings, version, extensions, self.agreed)?;
        channel.record_limit = agreed.record_limit as u16;
        channel.receive_limit = agreed.receive_limit as u16;
        absorb(&mut self.keys.transcript, message.kind, &message.body);
        let certificates = match self.certificates.get() {
            Some(certificates) if self.verifies => {
                Some((Arc::clone(certificates), Kinds::read(certificates, extensions)?))
            }
            _ => None,
        };
        // If the server is still to authenticate itself, its key is noted when it is verified.
        let authenticated = match self.owner.peer_key() {
            Some(_) => self.owner.authenticated(),
            None => PartState::EMPTY,
        };
        // RFC 8446, section 4.2.10.
        let protocol = agreed.application_protocol(settings);
        let name = protocol.get().map_or(&[][..], Vec::as_slice);
        if early_data && self.early_protocol.get().map(Vec::as_slice) != Some(name) {
            return Err(Misbehaviour::illegal("early_data").into());
        }
        let key_check = self.owner.key_check();
        let (psk_identity, owner) = self.owner.into_identity();
        let finished = Box::new(WaitFinished {
            part: self.part,
            random: self.random,
            suite: self.suite,
            keys: self.keys,
            negotiated: Negotiated {
                version,
                suite: self.suite.id,
                suite_name: self.suite.name,
                group: self.group,
                psk_identity,
                key_check,
                send,
                receive,
                resumed: self.resumed,
                early_data,
                extended_master: true,
                record_limit: agreed.record_limit,
                send_cid: agreed.send_cid,
                receive_cid: agreed.receive_cid,
                return_routability: agreed.return_routability,
                certificates: authenticated,
                protocol,
            },
            owner,
            answer: PartState::EMPTY,
        });
        Ok(match certificates {
            Some((certificates, kinds)) => State::WaitServerCertificate(
                (self.part, certificates.part),
                Box::new(WaitCertificate::new(&certificates, kinds, finished)),
            ),
            None => State::WaitServerFinished(self.part, finished),
        })
    }
}

/// Only the server's Finished is missing.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    pub(in crate::handshake) part: parts::Client,
    random: LoggedRandom,
    suite: &'static CipherSuite,
    pub(in crate::handshake) keys: Box<HandshakeKeys>,
    owner: InlineState<parts::Resumption, Owner>,
    pub(in crate::handshake) negotiated: Negotiated,
    /// What the client answers a server that has asked for its certificate.
    pub(in crate::handshake) answer: PartState<parts::Certificates, Answer>,
}

impl WaitFinished {
    /// Processes the server's Finished and sends the client's last flight: the handshake is complete,
    /// unless the client's key signs later.
    #[inline(never)]
    pub(crate) fn finished(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Progress, Fault> {
        let answer = self.answer.take();
        // The memory of this state is free before the flight takes some.
        let flight = self.verified(settings, channel, message)?;
        match answer {
            Some(answer) => certificates::answer(answer, flight, channel),
            None => Ok(Progress::Complete(flight.finish(channel))),
        }
    }

    /// Verifies the server's Finished.
    #[inline(never)]
    fn verified(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<Box<LastFlight>, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if !self.keys.server.finished_key().verify(&self.keys.transcript.hash(), &message.body) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        absorb(&mut self.keys.transcript, message.kind, &message.body);
        let hash = self.keys.transcript.hash();
        let ApplicationSecrets { client: send_secret, server: receive_secret, exporter } =
            self.keys.master.application(&hash);
        if let Some(random) = self.random.get() {
            log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", random, &send_secret);
            log_secret(settings, "SERVER_TRAFFIC_SECRET_0", random, &receive_secret);
        }
        channel.flight.complete();
        let mut agreed = PartState::EMPTY;
        if let Some(part) = parts::Resumption::INCLUDED.filter(|_| settings.resumption)
            && let Some(mut owner) = self.owner.into_inner()
        {
            if let Some(key) = self.negotiated.peer_key() {
                owner.set_peer(key.clone());
            }
            let alpn = self.negotiated.application_protocol().unwrap_or_default().to_vec();
            agreed.set(part, Agreed { suite: self.suite.id, owner, alpn });
        }
        let established = Box::new(Established {
            keys: EstablishedKeys::Dtls13 {
                suite: self.suite,
                send: KeptSecret::of(&send_secret),
                receive: KeptSecret::of(&receive_secret),
                exporter: keep_exporter(exporter),
                resumption: PartState::EMPTY,
            },
            offered: OfferedSchemes::new(
                (self.negotiated.send, settings.aggregation.send()),
                (self.negotiated.receive, settings.aggregation.receive()),
            ),
            parameters: Parameters::new(self.negotiated),
        });
        Ok(Box::new(LastFlight { keys: self.keys, agreed, established }))
    }
}

/// What the client's last flight is made from.
#[derive(Debug)]
pub(in crate::handshake) struct LastFlight {
    /// Its transcript ends at first with the server's Finished.
    pub(in crate::handshake) keys: Box<HandshakeKeys>,
    /// What tickets of the server will carry on.
    agreed: PartState<parts::Resumption, Agreed>,
    established: Box<Established>,
}

impl LastFlight {
    /// Sends the client's Finished: the handshake is complete.
    pub(in crate::handshake) fn finish(self: Box<Self>, channel: &mut Channel) -> Box<Established> {
        let mut established = self.send_finished(channel);
        let (sends, receives) = established.schemes();
        if let EstablishedKeys::Dtls13 { suite, send, receive, .. } = &mut established.keys {
            let (send, receive) = (send.traffic(suite.hash), receive.traffic(suite.hash));
            channel.install(APPLICATION_EPOCH, suite, (&send, sends), (&receive, receives));
        }
        established
    }

    /// Sends the client's Finished, and gives back the memory of what it is made from.
    #[inline(never)]
    fn send_finished(mut self: Box<Self>, channel: &mut Channel) -> Box<Established> {
        let finished = self.keys.client.finished_key().verify_data(&self.keys.transcript.hash());
        channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished.to_vec());
        let mut established = self.established;
        if let EstablishedKeys::Dtls13 { resumption, .. } = &mut established.keys
            && let Some(agreed) = self.agreed.take()
            && let Some(part) = parts::Resumption::INCLUDED
        {
            absorb(&mut self.keys.transcript, HandshakeType::FINISHED, &finished);
            let secret = self.keys.master.resumption(&self.keys.transcript.hash());
            *resumption = Resumption::receiver(part, secret, agreed);
        }
        established
    }
}
