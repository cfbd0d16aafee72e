//! The client's handshake states in DTLS 1.3, and the common first one.

use super::certificates::client::{
    Answer, Kinds, WaitCertificate, is_offered, offered_len, write_offer,
};
use super::early::EarlyKeys;
use super::grease::{Grease, List};
use super::negotiated_extensions::NegotiatedExtensions;
use super::psk::{HandshakePsk, truncated_hash};
use super::resumption::{Agreed, Resumption};
use super::session::PskOwner;
use super::{
    Channel, Established, EstablishedKeys, Negotiated, OfferedSchemes, Progress, State, absorb,
    certificates, dtls12, expect_epoch, log_secret, negotiated_extensions,
};
use crate::codepoints::{
    DTLS_1_2, DTLS_1_3, EMPTY_RENEGOTIATION_INFO_SCSV, ExtensionType, HandshakeType,
    PskKeyExchangeMode, UNCOMPRESSED_POINTS,
};
use crate::config::certificates::ForClient;
use crate::config::session::SessionPeer;
use crate::config::{ClientConfig, ProtocolVersion, Psk, Session, Settings, can_aggregate};
use crate::crypto::{
    ApplicationSecrets, CipherSuite, CipherSuiteId, EarlySecret, HashAlgorithm, KeyExchange,
    LONGEST_OUTPUT, MasterSecret, NamedGroup, TrafficSecret, Transcript,
};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::hello::write_client_hello;
use crate::messages::{EncryptedExtensions, ServerHello, aggregation as aggregation_extension};
use crate::parts::{self, Part, PartState};
use crate::record::ConnectionId;
use crate::record::epochs::{APPLICATION_EPOCH, HANDSHAKE_EPOCH};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, Instant, Reader, Writer};

use super::reassembly::Message;

/// The room in bytes for a ClientHello besides its identity, cookies, ticket and share.
const HELLO_ROOM: usize = 640;

/// The room in bytes for values that no standard defines.
const GREASE_ROOM: usize = 32;

/// The place of a binder before it is computed.
const BINDER: [u8; LONGEST_OUTPUT] = [0; LONGEST_OUTPUT];

/// A ticket that is offered, and the session that it resumes.
#[derive(Debug)]
struct OfferedTicket {
    psk: HandshakePsk,
    agreed: Agreed,
    /// The suite of the early data that is offered with it, and the largest number of its bytes.
    early_data: Option<(parts::EarlyData, &'static CipherSuite, u32)>,
}

impl OfferedTicket {
    /// The ticket of a session, if the session was made with the same credential, a suite with the
    /// hash of its PSK is offered (RFC 8446, section 4.2.11), and it has not expired.
    fn new(
        config: &ClientConfig,
        session: Option<&Session>,
        now: Instant,
    ) -> PartState<parts::Resumption, Self> {
        let mut offered = PartState::EMPTY;
        let Some((part, session)) = session.and_then(Session::dtls13) else { return offered };
        let Some(suite) = config.settings.provider.suite(session.suite) else { return offered };
        let algorithm = suite.hash.algorithm();
        let mut suites = config.settings.ordered_suites();
        let fits = config.settings.resumption
            && now < session.expires
            && suites.any(|suite| suite.hash.is(algorithm))
            && config.made(session);
        if fits {
            let mut psk = HandshakePsk::of_ticket(part, &session.psk, suite.hash);
            psk.identity.clone_from(&session.ticket);
            psk.age = session.obfuscated_age(now);
            let agreed = Agreed {
                suite: session.suite,
                peer: session.peer.clone(),
                server_name: session.server_name.clone(),
                alpn: session.alpn.clone(),
            };
            // RFC 8446, section 4.2.10: the server can accept it only under the session's suite.
            let most = config.settings.early_data.min(session.max_early_data);
            let suite = config.settings.ordered_suites().find(|suite| suite.id == session.suite);
            let early_data = match (parts::EarlyData::INCLUDED, suite) {
                (Some(part), Some(suite)) if most > 0 => Some((part, suite, most)),
                _ => None,
            };
            offered.set(part, Self { psk, agreed, early_data });
        }
        offered
    }
}

/// A key exchange in progress.
struct PendingExchange {
    group: NamedGroup,
    exchange: Box<dyn KeyExchange>,
}

impl core::fmt::Debug for PendingExchange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PendingExchange({:?})", self.group)
    }
}

/// What a ClientHello offers to a server of DTLS 1.3.
#[derive(Debug)]
struct Offer {
    part: parts::Client,
    /// The ticket that is offered before the PSK.
    ticket: PartState<parts::Resumption, OfferedTicket>,
    psk: Option<HandshakePsk>,
    share: Option<PendingExchange>,
    transcript: Transcript,
    /// The suite of the HelloRetryRequest, if one came.
    retried: Option<CipherSuiteId>,
}

/// The ClientHello was sent.
#[derive(Debug)]
pub(crate) struct WaitServerHello {
    part: parts::Client,
    random: [u8; 32],
    psk: Option<Psk>,
    certificates: ForClient,
    cid: Option<ConnectionId>,
    offers: Offers,
}

/// What a ClientHello offers to a server of either version.
#[derive(Debug)]
enum Offers {
    Dtls13(Box<Offer>),
    Dtls12(parts::Dtls12, Box<dtls12::client::Offer>),
    Both(Box<Offer>, parts::Dtls12, Box<dtls12::client::Offer>),
}

impl Offers {
    const fn dtls13(&self) -> Option<&Offer> {
        match self {
            Self::Dtls13(offer) | Self::Both(offer, ..) => Some(offer),
            Self::Dtls12(..) => None,
        }
    }

    const fn dtls13_mut(&mut self) -> Option<&mut Offer> {
        match self {
            Self::Dtls13(offer) | Self::Both(offer, ..) => Some(offer),
            Self::Dtls12(..) => None,
        }
    }

    fn dtls12(&self) -> Option<&dtls12::client::Offer> {
        match self {
            Self::Dtls12(_, offer) | Self::Both(_, _, offer) => Some(offer),
            Self::Dtls13(_) => None,
        }
    }

    fn dtls12_mut(&mut self) -> Option<&mut dtls12::client::Offer> {
        match self {
            Self::Dtls12(_, offer) | Self::Both(_, _, offer) => Some(offer),
            Self::Dtls13(_) => None,
        }
    }
}

fn start_share(
    settings: &Settings,
    channel: &mut Channel,
    group: NamedGroup,
) -> Option<PendingExchange> {
    let exchange = settings.provider.group(group)?.start(&mut channel.rng);
    Some(PendingExchange { group, exchange })
}

impl WaitServerHello {
    /// Sends the first ClientHello. A session is offered if it fits the configuration.
    pub(crate) fn start(
        config: &ClientConfig,
        channel: &mut Channel,
        now: Instant,
        session: Option<&Session>,
    ) -> Self {
        let settings = &config.settings;
        let psk = config.psk.as_ref();
        let certificates = config.certificates.clone();
        let random = channel.rng.array();
        let ids = settings.connection_ids;
        let cid =
            ids.are_negotiated().then(|| ConnectionId::random(&mut channel.rng, ids.own_bytes()));
        let hashes = settings.ordered_suites().map(|suite| suite.hash);
        let first = hashes.clone().next();
        let offer_13 = first.map(|first| {
            let (hash, transcript) = match parts::Sha384::INCLUDED {
                Some(part) => {
                    // The hash of an external PSK, if a suite has it.
                    let hash = hashes.clone().find(|hash| hash.is(HashAlgorithm::Sha256));
                    let differ = hashes.clone().any(|hash| !hash.is(first.algorithm()));
                    let transcript = match differ {
                        true => Transcript::undecided(part),
                        false => Transcript::new(first),
                    };
                    (hash.unwrap_or(first), transcript)
                }
                None => (first, Transcript::new(first)),
            };
            Box::new(Offer {
                part: config.part,
                ticket: OfferedTicket::new(config, session, now),
                psk: psk.and_then(|psk| HandshakePsk::of(psk, hash)),
                share: match settings.groups.first() {
                    Some(group)
                        if certificates.get().is_some()
                            || settings.psk_modes.contains(&PskKeyExchangeMode::PSK_DHE_KE) =>
                    {
                        start_share(settings, channel, *group)
                    }
                    _ => None,
                },
                transcript,
                retried: None,
            })
        });
        let offer_13 = offer_13.filter(|offer| {
            !parts::Sha384::IS_INCLUDED
                || settings.ordered_suites().any(|suite| offer.fits(&certificates, suite))
        });
        let verifies = certificates.get().is_some();
        let offer_12 = |highest, channel: &mut Channel| {
            let owned = certificates.get().map(|certificates| &**certificates);
            let session = session.and_then(Session::dtls12).cloned().filter(|session| {
                settings.resumption
                    && session.owner.is_of_client(psk, owned)
                    && settings.suites_12().any(|suite| suite.id == session.suite)
            });
            Box::new(dtls12::client::Offer::new(
                config.part,
                random,
                psk,
                &certificates,
                highest,
                session,
                cid,
                channel,
            ))
        };
        let part_12 = parts::Dtls12::INCLUDED
            .filter(|_| settings.suites_12_with(psk.is_some(), verifies).next().is_some());
        let offers = match (offer_13, part_12) {
            (Some(offer), None) => Offers::Dtls13(offer),
            (Some(offer), Some(part)) => {
                Offers::Both(offer, part, offer_12(ProtocolVersion::Dtls13, channel))
            }
            (None, offered) => {
                let part = offered.expect("the configuration has a version that it can use");
                Offers::Dtls12(part, offer_12(ProtocolVersion::Dtls12, channel))
            }
        };
        let psk = psk.cloned();
        let mut state = Self { part: config.part, random, psk, certificates, cid, offers };
        let sent = state.send_hello(settings, channel, &[], &[]);
        sent.expect("Settings::check and LONGEST_TICKET keep the first hello short enough");
        state
    }

    /// The keys of the early data that the first hello offers.
    pub(crate) fn early_keys(&self, settings: &Settings) -> Option<EarlyKeys> {
        let offer = self.offers.dtls13()?;
        let ticket = offer.ticket.get()?;
        let (part, suite, most) = ticket.early_data?;
        let hash = offer.transcript.hash_by(suite.hash);
        let log = (settings, &self.random);
        Some(EarlyKeys::new(part, suite, &ticket.psk.early, &hash, most, log))
    }

    /// The version, if only one is still possible.
    pub(crate) const fn version(&self) -> Option<ProtocolVersion> {
        match &self.offers {
            Offers::Dtls13(_) => Some(ProtocolVersion::Dtls13),
            Offers::Dtls12(..) => Some(ProtocolVersion::Dtls12),
            Offers::Both(..) => None,
        }
    }

    /// Whether a HelloRetryRequest came: the server speaks DTLS 1.3.
    pub(crate) fn is_retried(&self) -> bool {
        self.offers.dtls13().is_some_and(|offer| offer.retried.is_some())
    }

    /// The connection ID that the server is to use.
    pub(crate) fn cid(&self) -> ConnectionId {
        self.cid.unwrap_or_default()
    }

    /// Sends a hello with the cookie of either version.
    fn send_hello(
        &mut self,
        settings: &Settings,
        channel: &mut Channel,
        cookie_13: &[u8],
        cookie_12: &[u8],
    ) -> Result<(), Fault> {
        let body = self
            .write_hello(settings, cookie_13, cookie_12)
            .map_err(|BufferFull| Fault::Internal("ClientHello too long"))?;
        if let Some(offer) = self.offers.dtls13_mut() {
            absorb(&mut offer.transcript, HandshakeType::CLIENT_HELLO, &body);
        }
        if let Some(offer) = self.offers.dtls12_mut() {
            offer.hello.clone_from(&body);
            offer.sequence = channel.flight.next_sequence();
        }
        channel.flight.push(0, HandshakeType::CLIENT_HELLO, body);
        Ok(())
    }

    fn write_hello(
        &self,
        settings: &Settings,
        cookie_13: &[u8],
        cookie_12: &[u8],
    ) -> Result<Vec<u8>, BufferFull> {
        let (offer_13, offer_12) = (self.offers.dtls13(), self.offers.dtls12());
        let share = offer_13.and_then(|offer| offer.share.as_ref());
        let key = share.map_or(&[][..], |share| share.exchange.public_key());
        let (session_id, ticket) = match offer_12 {
            Some(offer) => {
                (&offer.session_id[..], Some(offer.ticket()).filter(|_| settings.uses_tickets()))
            }
            None => (&[][..], None),
        };
        let variable = [cookie_13, cookie_12, key, ticket.unwrap_or_default()];
        let psks: usize = offer_13.map_or(0, Offer::psks_len);
        let certificates = self.certificates.get();
        let authorities =
            certificates.map_or_else(Vec::new, |offered| offered.verifier.authorities());
        let protocols = settings.protocols().iter().map(|name| 1 + name.len()).sum::<usize>();
        let room = HELLO_ROOM
            + if settings.grease { GREASE_ROOM } else { 0 }
            + psks
            + protocols
            + variable.iter().map(|part| part.len()).sum::<usize>()
            + certificates.map_or(0, |offered| offered_len(settings, offered, &authorities));
        let mut body = alloc::vec![0; room];
        let mut w = Writer::new(&mut body);
        let renegotiation = offer_12.map(|_| EMPTY_RENEGOTIATION_INFO_SCSV);
        let grease = Grease::new(settings, &self.random);
        let suites = settings
            .ordered_suites()
            .filter(|suite| {
                !parts::Sha384::IS_INCLUDED
                    || offer_13.is_some_and(|offer| offer.fits(&self.certificates, suite))
            })
            .map(|suite| suite.id.0)
            .chain(
                offer_12
                    .into_iter()
                    .flat_map(|offer| offer.suites(settings))
                    .map(|suite| suite.id.0),
            )
            .chain(renegotiation);
        let suites = grease.map(|grease| grease.value(List::Suites)).into_iter().chain(suites);
        let ecdhe_12 = offer_12.is_some_and(|offer| offer.offers_ecdhe(settings));
        let mut binders_at = None;
        write_client_hello(&mut w, &self.random, session_id, cookie_12, suites, |w| {
            if offer_13.is_some() {
                write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| {
                    w.vec8(|w| {
                        Grease::write(grease, List::Versions, w)?;
                        w.u16(DTLS_1_3)?;
                        if offer_12.is_some() { w.u16(DTLS_1_2) } else { Ok(()) }
                    })
                })?;
            }
            if !cookie_13.is_empty() {
                write_extension(w, ExtensionType::COOKIE, |w| w.vec16(|w| w.bytes(cookie_13)))?;
            }
            if offer_12.is_some() {
                write_extension(w, ExtensionType::EXTENDED_MASTER_SECRET, |_| Ok(()))?;
            }
            if let Some(ticket) = ticket {
                write_extension(w, ExtensionType::SESSION_TICKET, |w| w.bytes(ticket))?;
            }
            negotiated_extensions::write_offer(settings, self.cid, grease, w)?;
            if share.is_some() || ecdhe_12 {
                write_extension(w, ExtensionType::SUPPORTED_GROUPS, |w| {
                    w.vec16(|w| {
                        Grease::write(grease, List::Groups, w)?;
                        settings.groups.iter().try_for_each(|group| w.u16(group.0))
                    })
                })?;
            }
            if ecdhe_12 {
                write_extension(w, ExtensionType::EC_POINT_FORMATS, |w| {
                    w.vec8(|w| w.u8(UNCOMPRESSED_POINTS))
                })?;
            }
            if let Some(grease) = grease {
                write_extension(w, ExtensionType(grease.value(List::Extensions)), |_| Ok(()))?;
            }
            if let Some(certificates) = certificates {
                write_offer(settings, certificates, &authorities, grease, w)?;
            }
            let Some(offer) = offer_13 else { return Ok(()) };
            if let Some(share) = share {
                let entry = KeyShareEntry { group: share.group, key };
                write_extension(w, ExtensionType::KEY_SHARE, |w| w.vec16(|w| w.put(&entry)))?;
            }
            // A client that offers no PSK may still get tickets.
            let takes_tickets = parts::Resumption::IS_INCLUDED && settings.resumption;
            if takes_tickets || offer.psks().next().is_some() {
                write_extension(w, ExtensionType::PSK_KEY_EXCHANGE_MODES, |w| {
                    w.vec8(|w| settings.psk_modes.iter().try_for_each(|mode| w.u8(mode.0)))
                })?;
            }
            let wanted = &settings.aggregation;
            if wanted.is_wanted() {
                write_extension(w, settings.aggregation_extension, |w| {
                    aggregation_extension::write_offer(&wanted.receive, &wanted.send, w)
                })?;
            }
            if offer.psks().next().is_none() {
                return Ok(());
            }
            if offer.offers_early_data() {
                write_extension(w, ExtensionType::EARLY_DATA, |_| Ok(()))?;
            }
            // This extension must be the last one (RFC 8446, section 4.2.11).
            write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| {
                w.vec16(|w| {
                    offer.psks().try_for_each(|psk| {
                        w.vec16(|w| w.bytes(&psk.identity))?;
                        w.u32(psk.age)
                    })
                })?;
                binders_at = Some(w.len());
                w.vec16(|w| {
                    offer.psks().try_for_each(|psk| {
                        w.vec8(|w| w.bytes(BINDER.get(..psk.binder_len()).unwrap_or(&BINDER)))
                    })
                })
            })
        })?;
        let len = w.len();
        body.truncate(len);
        if let (Some(offer), Some(at)) = (offer_13, binders_at) {
            let binders_len = body.len().saturating_sub(at);
            // The length of the list (2 bytes) and of each binder (1 byte) precede it.
            let mut at = at + 2;
            for psk in offer.psks() {
                let hash = truncated_hash(&offer.transcript, &body, binders_len, psk.hash());
                let binder = psk.binder(&hash);
                if let Some(slot) = body.get_mut(at + 1..at + 1 + binder.len()) {
                    slot.copy_from_slice(&binder);
                }
                at += 1 + binder.len();
            }
        }
        Ok(body)
    }

    /// Processes a ServerHello or HelloRetryRequest.
    #[inline(never)]
    pub(crate) fn server_hello(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        expect_epoch(message, 0)?;
        let hello = ServerHello::decode(&message.body)?;
        // RFC 8446, section 4.2.1, and RFC 9147, section 5.3.
        let version = hello.extensions.get(ExtensionType::SUPPORTED_VERSIONS);
        match (version, self.offers) {
            (Some(version), _) if version != DTLS_1_3.to_be_bytes() => {
                Err(Misbehaviour::IllegalParameter("version").into())
            }
            (Some(_), offers @ (Offers::Dtls13(_) | Offers::Both(..))) if hello.is_retry() => {
                self.offers = offers;
                // The second hello still offers DTLS 1.2 (RFC 8446, section 4.1.2).
                self.retry(settings, channel, message, &hello)?;
                // A server that sends a HelloRetryRequest speaks DTLS 1.3.
                if let Offers::Dtls13(offer) | Offers::Both(offer, ..) = self.offers {
                    self.offers = Offers::Dtls13(offer);
                }
                Ok(State::WaitServerHello(self.part, self))
            }
            (Some(_), Offers::Dtls13(offer) | Offers::Both(offer, ..)) => offer.server_hello(
                self.random,
                self.psk.as_ref(),
                self.certificates,
                self.cid,
                settings,
                channel,
                message,
                &hello,
            ),
            // Only without the extension does the old version field count (RFC 8446, section
            // 4.2.1).
            (None, Offers::Dtls12(_, offer) | Offers::Both(_, _, offer))
                if hello.legacy_version == DTLS_1_2 && !hello.is_retry() =>
            {
                offer.server_hello(settings, channel, message, &hello)
            }
            _ => Err(Incompatibility::Version.into()),
        }
    }

    /// Answers a HelloVerifyRequest: the server speaks DTLS 1.2 (RFC 9147, section 5.1).
    #[inline(never)]
    pub(crate) fn hello_verify_request(
        mut self: Box<Self>,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
    ) -> Result<State, Fault> {
        let offer = self.offers.dtls12_mut().ok_or(Incompatibility::Version)?;
        let cookie = offer.verify_request(message)?;
        if let Some(offer) = self.offers.dtls13_mut() {
            if offer.retried.is_some() {
                return Err(Misbehaviour::UnexpectedMessage.into());
            }
            // The hello that a HelloVerifyRequest answers is not part of the transcript.
            offer.transcript.clear();
        }
        channel.flight.complete();
        self.send_hello(settings, channel, &[], cookie)?;
        Ok(State::WaitServerHello(self.part, self))
    }

    /// Answers a HelloRetryRequest (RFC 8446, section 4.1.4).
    fn retry(
        &mut self,
        settings: &Settings,
        channel: &mut Channel,
        message: &Message,
        hello: &ServerHello<'_>,
    ) -> Result<(), Fault> {
        check_hello_13(settings, hello, None)?;
        let Some(offer) = self.offers.dtls13_mut() else {
            return Err(Incompatibility::Version.into());
        };
        let suite = offer.suite(settings, &self.certificates, hello)?;
        if offer.retried.is_some() {
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
            let offered = offer.share.as_ref().map(|share| share.group);
            if offered.is_none() || offered == Some(group) || !settings.groups.contains(&group) {
                return Err(Misbehaviour::IllegalParameter("retry group").into());
            }
            offer.share = start_share(settings, channel, group);
        } else if cookie.is_empty() {
            return Err(Misbehaviour::IllegalParameter("retry that changes nothing").into());
        }
        offer.retried = Some(suite.id);
        offer.transcript.decide(suite.hash);
        offer.drop_psks_of_other_hashes(suite);
        offer.transcript.replace_with_message_hash();
        absorb(&mut offer.transcript, message.kind, &message.body);
        channel.flight.complete();
        self.send_hello(settings, channel, cookie, &[])
    }
}

/// Checks that a ServerHello or HelloRetryRequest of DTLS 1.3 has no unexpected extension.
fn check_hello_13(
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
    fn psks(&self) -> impl Iterator<Item = &HandshakePsk> {
        let ticket = self.ticket.get().map(|ticket| &ticket.psk);
        ticket.into_iter().chain(&self.psk)
    }

    /// Whether the hello offers early data: not after a HelloRetryRequest (RFC 8446, section 4.2.10).
    fn offers_early_data(&self) -> bool {
        let offered = self.ticket.get().is_some_and(|ticket| ticket.early_data.is_some());
        offered && self.retried.is_none()
    }

    /// The bytes that the PSKs take in a hello beside those that every hello has room for.
    fn psks_len(&self) -> usize {
        self.psks().map(|psk| psk.identity.len() + psk.binder_len() + 7).sum()
    }

    /// Whether a suite is offered: one without a PSK of its hash needs a certificate (RFC 8446,
    /// section 4.2.11).
    fn fits(&self, certificates: &ForClient, suite: &CipherSuite) -> bool {
        let algorithm = suite.hash.algorithm();
        !parts::Sha384::IS_INCLUDED
            || certificates.get().is_some()
            || self.psks().any(|psk| psk.hash().is(algorithm))
    }

    /// The server has chosen the suite in a HelloRetryRequest: PSKs of other hashes are not offered
    /// again (RFC 8446, section 4.1.2).
    fn drop_psks_of_other_hashes(&mut self, suite: &CipherSuite) {
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
    fn suite(
        &self,
        settings: &Settings,
        certificates: &ForClient,
        hello: &ServerHello<'_>,
    ) -> Result<&'static CipherSuite, Fault> {
        let mut suites = settings.ordered_suites().filter(|suite| self.fits(certificates, suite));
        suites
            .find(|suite| suite.id == hello.cipher_suite)
            .filter(|suite| self.retried.is_none_or(|retried| retried == suite.id))
            .ok_or(Misbehaviour::IllegalParameter("cipher suite").into())
    }

    /// Processes the ServerHello of a server that chose DTLS 1.3.
    #[expect(clippy::too_many_arguments, reason = "the fields of the previous state")]
    #[inline(never)]
    fn server_hello(
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
            return Err(Misbehaviour::IllegalParameter("session id echo").into());
        }
        check_hello_13(settings, hello, cid)?;
        let suite = self.suite(settings, &certificates, hello)?;
        self.transcript.decide(suite.hash);
        // The server accepts an offered PSK, or authenticates itself with a certificate.
        let ticket = self.ticket.take();
        let offers_psks = ticket.is_some() || self.psk.is_some();
        let chosen = hello.extensions.get(ExtensionType::PRE_SHARED_KEY);
        let first = self.retried.is_none();
        let mut early_protocol = None;
        let (early, peer, resumed) = match (chosen, ticket, self.psk) {
            (Some(_), ..) if !offers_psks => {
                return Err(Misbehaviour::UnsolicitedExtension.into());
            }
            (Some([0, 0]), Some(OfferedTicket { psk, agreed, early_data }), _) => {
                if first && early_data.is_some_and(|(_, of_ticket, _)| of_ticket.id == suite.id) {
                    early_protocol = Some(agreed.alpn);
                }
                (psk.early, agreed.peer, true)
            }
            (Some([0, 0]), None, Some(offered)) | (Some([0, 1]), Some(_), Some(offered)) => {
                let owner = psk.map(PskOwner::of).ok_or(Misbehaviour::UnsolicitedExtension)?;
                (offered.early, SessionPeer::Psk(owner), false)
            }
            (Some(_), ..) => return Err(Misbehaviour::IllegalParameter("PSK identity").into()),
            (None, ..) if certificates.get().is_some() => {
                (EarlySecret::without_psk(suite.hash), SessionPeer::Key(None), false)
            }
            (None, ..) => return Err(Misbehaviour::MissingExtension("pre_shared_key").into()),
        };
        // RFC 8446, section 4.2.11: the server's choices must agree.
        if !early.hash().is(suite.hash.algorithm()) {
            return Err(Misbehaviour::IllegalParameter("hash of the PSK").into());
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
            (None, _)
                if chosen.is_some() && settings.psk_modes.contains(&PskKeyExchangeMode::PSK_KE) =>
            {
                (None, None)
            }
            (None, _) => return Err(Misbehaviour::MissingExtension("key_share").into()),
        };
        absorb(&mut self.transcript, message.kind, &message.body);
        let hash = self.transcript.hash();
        let handshake = early.into_handshake(shared.as_ref());
        let client = handshake.client_traffic(&hash);
        let server = handshake.server_traffic(&hash);
        log_secret(settings, "CLIENT_HANDSHAKE_TRAFFIC_SECRET", &random, &client);
        log_secret(settings, "SERVER_HANDSHAKE_TRAFFIC_SECRET", &random, &server);
        let agreed = negotiated_extensions::read_cid_answer(settings, hello.extensions, cid)?;
        channel.agree_on_cids(&agreed);
        // The handshake epoch has the standard layout, whatever scheme is negotiated.
        channel.install(HANDSHAKE_EPOCH, suite, (&client, Scheme::Plain), (&server, Scheme::Plain));
        Ok(State::WaitEncryptedExtensions(
            self.part,
            Box::new(WaitEncryptedExtensions {
                part: self.part,
                random,
                peer,
                resumed,
                early_protocol,
                verifies: chosen.is_none(),
                certificates,
                agreed,
                suite,
                group,
                transcript: self.transcript,
                master: handshake.into_master(),
                client,
                server,
            }),
        ))
    }
}

/// The ServerHello was received: the handshake keys are known.
#[derive(Debug)]
pub(crate) struct WaitEncryptedExtensions {
    part: parts::Client,
    random: [u8; 32],
    peer: SessionPeer,
    resumed: bool,
    /// The application protocol with which the server may accept early data, empty for none; `None`
    /// if it may not accept any.
    early_protocol: Option<Vec<u8>>,
    /// Whether the server authenticates itself with a certificate.
    verifies: bool,
    certificates: ForClient,
    agreed: NegotiatedExtensions,
    suite: &'static CipherSuite,
    group: Option<NamedGroup>,
    transcript: Transcript,
    master: MasterSecret,
    client: TrafficSecret,
    server: TrafficSecret,
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
                    if self.early_protocol.is_some() && content.is_empty() =>
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
        if receive.aggregates() && !wanted.to_receive().any(|offered| offered == receive)
            || send.aggregates() && !wanted.to_send().any(|offered| offered == send)
            || (schemes != (Scheme::Plain, Scheme::Plain) && !can_aggregate(self.suite))
        {
            return Err(Misbehaviour::IllegalParameter("aggregation scheme").into());
        }
        let version = ProtocolVersion::Dtls13;
        let agreed =
            negotiated_extensions::read_limit_answer(settings, version, extensions, self.agreed)?;
        channel.record_limit = agreed.record_limit;
        channel.receive_limit = agreed.receive_limit;
        absorb(&mut self.transcript, message.kind, &message.body);
        let certificates = match self.certificates.get() {
            Some(certificates) if self.verifies => {
                Some((Arc::clone(certificates), Kinds::read(certificates, extensions)?))
            }
            _ => None,
        };
        let mut authenticated = PartState::EMPTY;
        if let (Some(certificates), SessionPeer::Key(Some(key))) =
            (self.certificates.get(), &self.peer)
        {
            authenticated.set(certificates.part, certificates.authenticated(key.clone()));
        }
        // RFC 8446, section 4.2.10.
        let protocol = agreed.application_protocol(settings);
        let name = protocol.get().map_or(&[][..], Vec::as_slice);
        if early_data && self.early_protocol.as_deref() != Some(name) {
            return Err(Misbehaviour::IllegalParameter("early_data").into());
        }
        let finished = Box::new(WaitFinished {
            part: self.part,
            random: self.random,
            suite: self.suite,
            transcript: self.transcript,
            master: self.master,
            client: self.client,
            server: self.server,
            negotiated: Negotiated {
                version,
                suite: self.suite.id,
                suite_name: self.suite.name,
                group: self.group,
                psk_identity: self.peer.psk_identity(),
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
            peer: self.peer,
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
    pub(super) part: parts::Client,
    random: [u8; 32],
    suite: &'static CipherSuite,
    pub(super) transcript: Transcript,
    master: MasterSecret,
    client: TrafficSecret,
    server: TrafficSecret,
    peer: SessionPeer,
    pub(super) negotiated: Negotiated,
    /// What the client answers a server that has asked for its certificate.
    pub(super) answer: PartState<parts::Certificates, Answer>,
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
        expect_epoch(message, HANDSHAKE_EPOCH)?;
        if !self.server.finished_key().verify(&self.transcript.hash(), &message.body) {
            return Err(Misbehaviour::WrongFinished.into());
        }
        absorb(&mut self.transcript, message.kind, &message.body);
        let hash = self.transcript.hash();
        let ApplicationSecrets { client: send_secret, server: receive_secret, exporter } =
            self.master.application(&hash);
        log_secret(settings, "CLIENT_TRAFFIC_SECRET_0", &self.random, &send_secret);
        log_secret(settings, "SERVER_TRAFFIC_SECRET_0", &self.random, &receive_secret);
        channel.flight.complete();
        let peer = match self.negotiated.peer_key() {
            Some(key) => SessionPeer::Key(Some(key.clone())),
            None => self.peer,
        };
        let mut agreed = PartState::EMPTY;
        if let Some(part) = parts::Resumption::INCLUDED.filter(|_| settings.resumption) {
            let server_name = self.negotiated.server_name().map(String::from);
            let alpn = self.negotiated.application_protocol().unwrap_or_default().to_vec();
            agreed.set(part, Agreed { suite: self.suite.id, peer, server_name, alpn });
        }
        let established = Established {
            keys: EstablishedKeys::Dtls13 {
                suite: self.suite,
                send: send_secret,
                receive: receive_secret,
                exporter,
                resumption: PartState::EMPTY,
            },
            offered: OfferedSchemes::new(
                (self.negotiated.send, &settings.aggregation.send),
                (self.negotiated.receive, &settings.aggregation.receive),
            ),
            negotiated: self.negotiated,
        };
        let flight = Box::new(LastFlight {
            transcript: self.transcript,
            client: self.client,
            master: self.master,
            agreed,
            established,
        });
        match self.answer.take() {
            Some(answer) => certificates::client::answer(answer, flight, channel),
            None => Ok(Progress::Complete(flight.finish(channel))),
        }
    }
}

/// What the client's last flight is made from.
#[derive(Debug)]
pub(super) struct LastFlight {
    /// The transcript; at first it ends with the server's Finished.
    pub(super) transcript: Transcript,
    client: TrafficSecret,
    master: MasterSecret,
    /// What tickets of the server will carry on.
    agreed: PartState<parts::Resumption, Agreed>,
    established: Established,
}

impl LastFlight {
    /// Sends the client's Finished: the handshake is complete.
    pub(super) fn finish(mut self: Box<Self>, channel: &mut Channel) -> Established {
        let finished = self.client.finished_key().verify_data(&self.transcript.hash());
        channel.flight.push(HANDSHAKE_EPOCH, HandshakeType::FINISHED, finished.to_vec());
        let mut established = self.established;
        let Negotiated { send: sends, receive: receives, .. } = established.negotiated;
        if let EstablishedKeys::Dtls13 { suite, send, receive, resumption, .. } =
            &mut established.keys
        {
            channel.install(APPLICATION_EPOCH, suite, (send, sends), (receive, receives));
            if let Some(agreed) = self.agreed.take()
                && let Some(part) = parts::Resumption::INCLUDED
            {
                absorb(&mut self.transcript, HandshakeType::FINISHED, &finished);
                let secret = self.master.resumption(&self.transcript.hash());
                *resumption = Resumption::receiver(part, secret, agreed);
            }
        }
        established
    }
}
