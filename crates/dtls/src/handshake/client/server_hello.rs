//! What a client does with the ServerHello of a server that chose DTLS 1.3.

use super::server_flight::LoggedRandom;
use super::{Offer, OfferedTicket, WaitEncryptedExtensions};
use crate::codepoints::{ExtensionType, PskKeyExchangeMode};
use crate::config::certificates::ForClient;
use crate::config::session::Owner;
use crate::config::{ProtocolVersion, Psk, Settings};
use crate::crypto::{CipherSuite, EarlySecret};
use crate::error::{Fault, Misbehaviour};
use crate::handshake::keys::HandshakeKeys;
use crate::handshake::psk::HandshakePsk;
use crate::handshake::{Channel, State, absorb, log_secret, negotiated_extensions};
use crate::messages::ServerHello;
use crate::messages::extensions::KeyShareEntry;
use crate::parts::{self, InlineState, OfPart, Part};
use crate::record::ConnectionId;
use crate::record::epochs::HANDSHAKE_EPOCH;
use alloc::boxed::Box;
use lightseal_aggregation::Scheme;
use lightseal_core::Decode;

use crate::handshake::reassembly::Message;

/// Checks that a ServerHello or HelloRetryRequest of DTLS 1.3 has no unexpected extension.
pub(super) fn check_hello_13(
    settings: &Settings,
    hello: &ServerHello<'_>,
    cid: Option<ConnectionId>,
) -> Result<(), Fault> {
    // RFC 8446, sections 4.1.4 and 4.2.
    let third = match hello.is_retry() {
        true => ExtensionType::COOKIE,
        false => ExtensionType::PRE_SHARED_KEY,
    };
    let expected = [ExtensionType::SUPPORTED_VERSIONS, ExtensionType::KEY_SHARE, third];
    let about_cid = [ExtensionType::CONNECTION_ID, ExtensionType::RETURN_ROUTABILITY_CHECK];
    let expected = |kind| {
        expected.contains(&kind)
            || about_cid.contains(&kind)
                && negotiated_extensions::is_offered(settings, ProtocolVersion::Dtls13, cid, kind)
    };
    if hello.extensions.iter().any(|(kind, _)| !expected(kind)) {
        return Err(Misbehaviour::UnsolicitedExtension.into());
    }
    Ok(())
}

impl Offer {
    /// The offered PSKs, in order of preference.
    pub(super) fn psks(&self) -> impl Iterator<Item = &HandshakePsk> {
        let ticket = self.ticket.get().map(|ticket| &ticket.psk);
        ticket.into_iter().chain(&self.psk)
    }

    /// Whether the hello offers early data: not after a HelloRetryRequest (RFC 8446, section 4.2.10).
    pub(super) fn offers_early_data(&self) -> bool {
        let offered = self.ticket.get().is_some_and(|ticket| ticket.early_data.is_some());
        offered && self.retried.is_none()
    }

    /// The bytes that the PSKs take in a hello beside those that every hello has room for.
    pub(super) fn psks_len(&self) -> usize {
        self.psks().map(|psk| psk.identity.len() + psk.binder_len() + 7).sum()
    }

    /// Whether a suite is offered: one without a PSK of its hash needs a certificate (RFC 8446,
    /// section 4.2.11).
    pub(super) fn fits(&self, certificates: &ForClient, suite: &CipherSuite) -> bool {
        let algorithm = suite.hash.algorithm();
        !parts::Sha384::IS_INCLUDED
            || certificates.get().is_some()
            || self.psks().any(|psk| psk.hash().is(algorithm))
    }

    /// The server has chosen the suite in a HelloRetryRequest: PSKs of other hashes are not offered
    /// again (RFC 8446, section 4.1.2).
    pub(super) fn drop_psks_of_other_hashes(&mut self, suite: &CipherSuite) {
        let algorithm = suite.hash.algorithm();
        let differs = |psk: &HandshakePsk| !psk.hash().is(algorithm);
        if self.ticket.get().is_some_and(|ticket| differs(&ticket.psk)) {
            self.ticket.clear();
        }
        if self.psk.as_ref().is_some_and(differs) {
            self.psk = None;
        }
    }

    /// The chosen suite, which must have been offered.
    pub(super) fn suite(
        &self,
        settings: &Settings,
        certificates: &ForClient,
        hello: &ServerHello<'_>,
    ) -> Result<&'static CipherSuite, Fault> {
        let mut suites = settings.ordered_suites().filter(|suite| self.fits(certificates, suite));
        suites
            .find(|suite| suite.id == hello.cipher_suite)
            .filter(|suite| self.retried.is_none_or(|retried| retried == suite.id))
            .ok_or(Misbehaviour::illegal("cipher suite").into())
    }

    /// Processes the ServerHello of a server that chose DTLS 1.3.
    #[expect(clippy::too_many_arguments, reason = "the fields of the previous state")]
    #[inline(never)]
    pub(super) fn server_hello(
        mut self: Box<Self>,
        random: [u8; 32],
        psk: Option<&Psk>,
        certificates: ForClient,
        cid: Option<ConnectionId>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
        hello: &ServerHello<'_>,
    ) -> Result<State, Fault> {
        if !hello.session_id.is_empty() {
            return Err(Misbehaviour::illegal("session id echo").into());
        }
        check_hello_13(settings, hello, cid)?;
        let suite = self.suite(settings, &certificates, hello)?;
        self.transcript.decide(suite.hash);
        // The server accepts an offered PSK, or authenticates itself with a certificate.
        let offers_ticket = self.ticket.get().is_some();
        let chosen = hello.extensions.get(ExtensionType::PRE_SHARED_KEY);
        let first = self.retried.is_none();
        let mut early_protocol = InlineState::EMPTY;
        let (early, owner, resumed) = if let Some(index) = chosen {
            if !offers_ticket && self.psk.is_none() {
                return Err(Misbehaviour::UnsolicitedExtension.into());
            }
            let ticket = if index == [0, 0] { self.ticket.take() } else { None };
            if let Some(OfferedTicket { psk, agreed, early_data }) = ticket {
                if let Some((part, of_ticket, _)) = early_data
                    && first
                    && of_ticket.id == suite.id
                {
                    early_protocol = InlineState::new(Some(part), |_| agreed.alpn);
                }
                (psk.early, agreed.owner, true)
            } else {
                // The ticket is offered first.
                let offered = self.psk.take().filter(|_| index == [0, u8::from(offers_ticket)]);
                let offered = offered.ok_or(Misbehaviour::illegal("PSK identity"))?;
                let owner = psk.map(Owner::of).ok_or(Misbehaviour::UnsolicitedExtension)?;
                (offered.early, owner, false)
            }
        } else {
            let offered = certificates.get().ok_or(Misbehaviour::missing("pre_shared_key"))?;
            (EarlySecret::without_psk(suite.hash), Owner::of_client(offered, None), false)
        };
        // RFC 8446, section 4.2.11: the server's choices must agree.
        if !early.hash().is(suite.hash.algorithm()) {
            return Err(Misbehaviour::illegal("hash of the PSK").into());
        }
        let key_share = hello.extensions.get(ExtensionType::KEY_SHARE);
        let (group, shared) = match (key_share, self.share.take()) {
            (Some(content), Some(share)) => {
                let entry = KeyShareEntry::decode(content)?;
                if entry.group != share.group {
                    return Err(Misbehaviour::illegal("key share group").into());
                }
                let shared = OfPart::into_inner(share)
                    .exchange
                    .complete(entry.key)
                    .map_err(|_| Misbehaviour::illegal("key share"))?;
                (Some(entry.group), Some(shared))
            }
            (Some(_), None) => return Err(Misbehaviour::UnsolicitedExtension.into()),
            (None, _)
                if chosen.is_some() && settings.psk_modes.contains(&PskKeyExchangeMode::PSK_KE) =>
            {
                (None, None)
            }
            (None, _) => return Err(Misbehaviour::missing("key_share").into()),
        };
        absorb(&mut self.transcript, message.kind, &message.body);
        let keys = HandshakeKeys::new(early, shared.as_ref(), self.transcript);
        log_secret(settings, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", &random, &keys.client);
        log_secret(settings, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &random, &keys.server);
        let agreed = negotiated_extensions::read_cid_answer(settings, hello.extensions, cid)?;
        channel.agree_on_cids(&agreed);
        // The ServerHello acknowledges the ClientHello (RFC 9147, section 7.2).
        channel.flight.complete();
        // The handshake epoch has the standard layout, whatever scheme is negotiated.
        let (client, server) = ((&keys.client, Scheme::Plain), (&keys.server, Scheme::Plain));
        channel.install(HANDSHAKE_EPOCH, suite, client, server);
        Ok(State::WaitEncryptedExtensions(
            self.part,
            Box::new(WaitEncryptedExtensions {
                part: self.part,
                random: LoggedRandom::new(parts::KeyLog::INCLUDED, |_| random),
                owner,
                resumed,
                early_protocol,
                verifies: chosen.is_none(),
                certificates,
                agreed,
                suite,
                group,
                keys,
            }),
        ))
    }
}
