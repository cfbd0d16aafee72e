//! The client's states.

use super::{Channel, Established, Negotiated, State, absorb, expect_epoch, log_secret};
use crate::codepoints::{
    DTLS_1_3, ExtensionType, HandshakeType, LEGACY_VERSION, PskKeyExchangeMode,
};
use crate::config::{ClientConfig, Settings, can_aggregate};
use crate::crypto::{
    BinderKey, CipherSuite, CipherSuiteId, EarlySecret, HandshakeSecret, KeyExchange, NamedGroup,
    TrafficSecret, Transcript,
};
use crate::error::{Fault, Misbehaviour};
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::fragment::transcript_header;
use crate::messages::hello::write_client_hello;
use crate::messages::{EncryptedExtensions, ServerHello, aggregation as aggregation_extension};
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use aggregation::Scheme;
use alloc::boxed::Box;
use alloc::vec::Vec;
use vocabulary::wire::BufferFull;
use vocabulary::{Decode, Reader, Writer};

use super::reassembly::Message;

/// Bytes of a ClientHello beside its identity, cookie and share.
const HELLO_ROOM: usize = 512;

/// A key exchange under way.
struct Share {
    group: NamedGroup,
    exchange: Box<dyn KeyExchange>,
}

impl core::fmt::Debug for Share {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Share({:?})", self.group)
    }
}

/// The ClientHello was sent.
#[derive(Debug)]
pub(crate) struct WaitServerHello {
    random: [u8; 32],
    identity: Vec<u8>,
    early: EarlySecret,
    share: Option<Share>,
    transcript: Transcript,
    /// The suite of the HelloRetryRequest, if one came.
    retried: Option<CipherSuiteId>,
}

fn start_share(settings: &Settings, channel: &mut Channel, group: NamedGroup) -> Option<Share> {
    let exchange = settings.provider.group(group)?.start(&mut channel.rng);
    Some(Share { group, exchange })
}

impl WaitServerHello {
    /// Sends the first ClientHello.
    pub(crate) fn start(config: &ClientConfig, channel: &mut Channel) -> Result<Self, Fault> {
        let settings = &config.settings;
        let share = match settings.groups.first() {
            Some(group) if settings.psk_modes.contains(&PskKeyExchangeMode::PSK_DHE_KE) => {
                start_share(settings, channel, *group)
            }
            _ => None,
        };
        let mut state = Self {
            random: channel.rng.array(),
            identity: config.psk.identity().to_vec(),
            early: EarlySecret::from_psk(config.psk.key()),
            share,
            transcript: Transcript::new(),
            retried: None,
        };
        state.send_hello(settings, channel, &[])?;
        Ok(state)
    }

    fn send_hello(
        &mut self,
        settings: &Settings,
        channel: &mut Channel,
        cookie: &[u8],
    ) -> Result<(), Fault> {
        let body = self
            .write_hello(settings, cookie)
            .map_err(|BufferFull| Fault::Internal("ClientHello too long"))?;
        absorb(&mut self.transcript, HandshakeType::CLIENT_HELLO, &body);
        channel.flight.push(0, HandshakeType::CLIENT_HELLO, body);
        Ok(())
    }

    fn write_hello(&self, settings: &Settings, cookie: &[u8]) -> Result<Vec<u8>, BufferFull> {
        let key = self.share.as_ref().map_or(&[][..], |share| share.exchange.public_key());
        let room = HELLO_ROOM + self.identity.len() + cookie.len() + key.len();
        let mut body = alloc::vec![0; room];
        let mut w = Writer::new(&mut body);
        let suites = settings.ordered_suites().map(|suite| suite.id.0);
        let mut binder_at = 0;
        write_client_hello(&mut w, &self.random, &[], &[], suites, |w| {
            write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| w.vec8(|w| w.u16(DTLS_1_3)))?;
            if !cookie.is_empty() {
                write_extension(w, ExtensionType::COOKIE, |w| w.vec16(|w| w.bytes(cookie)))?;
            }
            if let Some(share) = &self.share {
                write_extension(w, ExtensionType::SUPPORTED_GROUPS, |w| {
                    w.vec16(|w| settings.groups.iter().try_for_each(|group| w.u16(group.0)))
                })?;
                let entry = KeyShareEntry { group: share.group, key };
                write_extension(w, ExtensionType::KEY_SHARE, |w| w.vec16(|w| w.put(&entry)))?;
            }
            write_extension(w, ExtensionType::PSK_KEY_EXCHANGE_MODES, |w| {
                w.vec8(|w| settings.psk_modes.iter().try_for_each(|mode| w.u8(mode.0)))
            })?;
            let wanted = &settings.aggregation;
            if wanted.is_wanted() {
                write_extension(w, settings.aggregation_extension, |w| {
                    aggregation_extension::write_offer(&wanted.receive, &wanted.send, w)
                })?;
            }
            // Always last (RFC 8446, section 4.2.11).
            write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| {
                w.vec16(|w| {
                    w.vec16(|w| w.bytes(&self.identity))?;
                    w.u32(0) // obfuscated_ticket_age of an external PSK
                })?;
                w.vec16(|w| {
                    w.vec8(|w| {
                        binder_at = w.len();
                        w.bytes(&[0; 32])
                    })
                })
            })
        })?;
        let len = w.len();
        body.truncate(len);
        let binder = self.binder(&self.early.external_binder(), &body, binder_at);
        if let Some(slot) = body.get_mut(binder_at..) {
            slot.copy_from_slice(&binder);
        }
        Ok(body)
    }

    /// The binder over the hello up to the list of binders (RFC 8446, section 4.2.11.2).
    fn binder(&self, key: &BinderKey, body: &[u8], binder_at: usize) -> [u8; 32] {
        let mut transcript = self.transcript.clone();
        transcript.update(&transcript_header(HandshakeType::CLIENT_HELLO, body.len()));
        // Before the binder stand the lengths of the list and of the binder.
        transcript.update(body.get(..binder_at - 3).unwrap_or_default());
        key.verify_data(&transcript.hash())
    }

    /// Takes a ServerHello or HelloRetryRequest.
    pub(crate) fn server_hello(
        mut self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let hello = ServerHello::decode(&message.body)?;
        if hello.legacy_version != LEGACY_VERSION {
            return Err(crate::error::Incompatibility::Version.into());
        }
        // RFC 8446, section 4.2.1, and RFC 9147, section 5.3.
        match hello.extensions.get(ExtensionType::SUPPORTED_VERSIONS) {
            Some(version) if version == DTLS_1_3.to_be_bytes() => {}
            Some(_) => return Err(Misbehaviour::IllegalParameter("version").into()),
            None => return Err(crate::error::Incompatibility::Version.into()),
        }
        if !hello.session_id.is_empty() {
            return Err(Misbehaviour::IllegalParameter("session id echo").into());
        }
        // RFC 8446, sections 4.1.4 and 4.2.
        let third = match hello.is_retry() {
            true => ExtensionType::COOKIE,
            false => ExtensionType::PRE_SHARED_KEY,
        };
        let expected = [ExtensionType::SUPPORTED_VERSIONS, ExtensionType::KEY_SHARE, third];
        if hello.extensions.iter().any(|(kind, _)| !expected.contains(&kind)) {
            return Err(Misbehaviour::UnsolicitedExtension.into());
        }
        let suite = settings
            .ordered_suites()
            .find(|suite| suite.id == hello.cipher_suite)
            .filter(|suite| self.retried.is_none_or(|retried| retried == suite.id))
            .ok_or(Misbehaviour::IllegalParameter("cipher suite"))?;
        if hello.is_retry() {
            self.retry(settings, channel, message, &hello)?;
            return Ok(State::WaitServerHello(self));
        }
        // The one offered PSK must have been taken: there is no other credential yet.
        match hello.extensions.get(ExtensionType::PRE_SHARED_KEY) {
            Some([0, 0]) => {}
            Some(_) => return Err(Misbehaviour::IllegalParameter("PSK identity").into()),
            None => return Err(Misbehaviour::MissingExtension("pre_shared_key").into()),
        }
        let key_share = hello.extensions.get(ExtensionType::KEY_SHARE);
        let (group, shared) = match (key_share, self.share.take()) {
            (Some(content), Some(share)) => {
                let entry = KeyShareEntry::decode(content)?;
                if entry.group != share.group {
                    return Err(Misbehaviour::IllegalParameter("key share group").into());
                }
                let shared = share
                    .exchange
                    .complete(entry.key)
                    .map_err(|_| Misbehaviour::IllegalParameter("key share"))?;
                (Some(entry.group), Some(shared))
            }
            (Some(_), None) => return Err(Misbehaviour::UnsolicitedExtension.into()),
            (None, _) if settings.psk_modes.contains(&PskKeyExchangeMode::PSK_KE) => (None, None),
            (None, _) => return Err(Misbehaviour::MissingExtension("key_share").into()),
        };
        absorb(&mut self.transcript, message.kind, &message.body);
        let hash = self.transcript.hash();
        let handshake = self.early.into_handshake(shared.as_ref());
        let client = handshake.client_traffic(&hash);
        let server = handshake.server_traffic(&hash);
        log_secret(settings, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", &self.random, &client);
        log_secret(settings, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &self.random, &server);
        // The handshake epoch keeps the standard layout, whatever follows.
        channel.install(HANDSHAKE_EPOCH, suite, (&client, Scheme::Plain), (&server, Scheme::Plain));
        Ok(State::WaitEncryptedExtensions(WaitEncryptedExtensions {
            random: self.random,
            identity: self.identity,
            suite,
            group,
            transcript: self.transcript,
            handshake,
            client,
            server,
        }))
    }

    /// Answers a HelloRetryRequest (RFC 8446, section 4.1.4).
    fn retry(
        &mut self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
        hello: &ServerHello<'_>,
    ) -> Result<(), Fault> {
        if self.retried.is_some() {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        let cookie = match hello.extensions.get(ExtensionType::COOKIE) {
            Some(content) => {
                let mut r = Reader::new(content);
                let cookie = r.vec16()?;
                r.finish()?;
                if cookie.is_empty() {
                    return Err(Misbehaviour::IllegalParameter("cookie").into());
                }
                cookie
            }
            None => &[],
        };
        if let Some(content) = hello.extensions.get(ExtensionType::KEY_SHARE) {
            let mut r = Reader::new(content);
            let group = NamedGroup(r.u16()?);
            r.finish()?;
            let offered = self.share.as_ref().map(|share| share.group);
            if offered.is_none() || offered == Some(group) || !settings.groups.contains(&group) {
                return Err(Misbehaviour::IllegalParameter("retry group").into());
            }
            self.share = start_share(settings, channel, group);
        } else if cookie.is_empty() {
            return Err(Misbehaviour::IllegalParameter("retry that changes nothing").into());
        }
        self.retried = Some(hello.cipher_suite);
        self.transcript.replace_with_message_hash();
        absorb(&mut self.transcript, message.kind, &message.body);
        channel.flight.complete();
        self.send_hello(settings, channel, cookie)
    }
}

/// The handshake keys are known.
#[derive(Debug)]
pub(crate) struct WaitEncryptedExtensions {
    random: [u8; 32],
    identity: Vec<u8>,
    suite: &'static CipherSuite,
    group: Option<NamedGroup>,
    transcript: Transcript,
    handshake: HandshakeSecret,
    client: TrafficSecret,
    server: TrafficSecret,
}

impl WaitEncryptedExtensions {
    /// Takes EncryptedExtensions.
    pub(crate) fn encrypted_extensions(
        mut self,
        settings: &Settings,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        let extensions = EncryptedExtensions::decode(&message.body)?.extensions;
        let wanted = &settings.aggregation;
        let mut schemes = (Scheme::Plain, Scheme::Plain);
        for (kind, content) in extensions.iter() {
            match kind {
                kind if kind == settings.aggregation_extension && wanted.is_wanted() => {
                    schemes = aggregation_extension::read_answer(content)?;
                }
                // The server's preferences, for another time (RFC 8446, section 4.2.7).
                ExtensionType::SUPPORTED_GROUPS => {}
                _ => return Err(Misbehaviour::UnsolicitedExtension.into()),
            }
        }
        let (receive, send) = schemes;
        let offered = |scheme, list: &[Scheme]| scheme == Scheme::Plain || list.contains(&scheme);
        if !offered(receive, &wanted.receive)
            || !offered(send, &wanted.send)
            || (schemes != (Scheme::Plain, Scheme::Plain) && !can_aggregate(self.suite))
        {
            return Err(Misbehaviour::IllegalParameter("aggregation scheme").into());
        }
        absorb(&mut self.transcript, message.kind, &message.body);
        Ok(State::WaitServerFinished(WaitFinished {
            random: self.random,
            suite: self.suite,
            transcript: self.transcript,
            handshake: self.handshake,
            client: self.client,
            server: self.server,
            negotiated: Negotiated {
                suite: self.suite.id,
                suite_name: self.suite.name,
                group: self.group,
                psk_identity: self.identity,
                send,
                receive,
            },
        }))
    }
}

/// Only the server's proof is missing.
#[derive(Debug)]
pub(crate) struct WaitFinished {
    random: [u8; 32],
    suite: &'static CipherSuite,
    transcript: Transcript,
    handshake: HandshakeSecret,
    client: TrafficSecret,
    server: TrafficSecret,
    negotiated: Negotiated,
}

impl WaitFinished {
    /// Takes the server's Finished, answers with ours, and is done.
    pub(crate) fn finished(
        mut self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if !self.server.finished_key().verify(&self.transcript.hash(), &message.body) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        absorb(&mut self.transcript, message.kind, &message.body);
        let hash = self.transcript.hash();
        let master = self.handshake.into_master();
        let send_secret = master.client_traffic(&hash);
        let receive_secret = master.server_traffic(&hash);
        let exporter = master.exporter(&hash);
        log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", &self.random, &send_secret);
        log_secret(settings, "SERVER_TRAFFIC_SECRET_0", &self.random, &receive_secret);
        let finished = self.client.finished_key().verify_data(&hash);
        channel.flight.complete();
        channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished.to_vec());
        channel.install(
            APPLICATION_EPOCH,
            self.suite,
            (&send_secret, self.negotiated.send),
            (&receive_secret, self.negotiated.receive),
        );
        Ok(State::Established(Established {
            suite: self.suite,
            send_secret,
            receive_secret,
            exporter,
            negotiated: self.negotiated,
        }))
    }
}
