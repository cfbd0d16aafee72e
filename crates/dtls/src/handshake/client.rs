//! The client's handshake states in DTLS 1.3, and the common first one.

pub(crate) mod certificates;
mod server_flight;
mod server_hello;

use super::certificates::offer::{VerifierOffer, offered_len, write_offer};
use super::early::EarlyKeys;
use super::grease::{Grease, List};
use super::psk::{HandshakePsk, truncated_hash};
use super::resumption::Agreed;
use super::{Channel, KeptRandom, State, absorb, dtls12, expect_epoch, negotiated_extensions};
use crate::codepoints::{
    DTLS_1_2, DTLS_1_3, EMPTY_RENEGOTIATION_INFO_SCSV, ExtensionType, HandshakeType,
    PskKeyExchangeMode, UNCOMPRESSED_POINTS,
};
use crate::config::certificates::ForClient;
use crate::config::{ClientConfig, ProtocolVersion, Psk, Session, Settings};
use crate::crypto::{
    CipherSuite, CipherSuiteId, HashAlgorithm, KeyExchange, LONGEST_OUTPUT, NamedGroup, Transcript,
};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::extensions::{KeyShareEntry, write_extension};
use crate::messages::hello::write_client_hello;
use crate::messages::{ServerHello, aggregation as aggregation_extension};
use crate::parts::{self, OfPart, Part, PartState};
use crate::record::ConnectionId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, Instant, Random, Reader, Writer};

use super::reassembly::Message;

pub(super) use server_flight::LastFlight;
pub(crate) use server_flight::{WaitEncryptedExtensions, WaitFinished};
use server_hello::check_hello_13;

/// The room in bytes for a ClientHello besides its lists, identity, cookies, ticket and share.
const HELLO_ROOM: usize = 256;

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
            && config.made(&session.owner);
        if fits {
            let mut psk = HandshakePsk::of_ticket(part, &session.psk, suite.hash);
            psk.identity.clone_from(&session.ticket);
            psk.age = session.obfuscated_age(now);
            let (owner, alpn) = (session.owner.clone(), session.alpn.clone());
            let agreed = Agreed { suite: session.suite, owner, alpn };
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
    share: Option<OfPart<parts::KeyExchange, PendingExchange>>,
    transcript: Box<Transcript>,
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
    rng: &mut Random,
    group: NamedGroup,
) -> Option<OfPart<parts::KeyExchange, PendingExchange>> {
    let part = parts::KeyExchange::INCLUDED?;
    let exchange = settings.provider.group(group)?.start(rng);
    Some(OfPart::new(part, PendingExchange { group, exchange }))
}

impl WaitServerHello {
    /// Sends the first ClientHello on a new channel. A session is offered if it fits the configuration.
    #[inline(never)]
    pub(crate) fn start(
        config: &ClientConfig,
        mut rng: Random,
        now: Instant,
        session: Option<&Session>,
    ) -> (Box<Self>, Channel) {
        let settings = &config.settings;
        let psk = config.psk.as_ref();
        let certificates = config.certificates.clone();
        let random = rng.array();
        let ids = settings.connection_ids;
        let cid = ids.are_negotiated().then(|| ConnectionId::random(&mut rng, ids.own_bytes()));
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
                        start_share(settings, &mut rng, *group)
                    }
                    _ => None,
                },
                transcript: Box::new(transcript),
                retried: None,
            })
        });
        let offer_13 = offer_13.filter(|offer| {
            !parts::Sha384::IS_INCLUDED
                || settings.ordered_suites().any(|suite| offer.fits(&certificates, suite))
        });
        let verifies = certificates.get().is_some();
        let offer_12 = |highest, rng: &mut Random| {
            let session = session.and_then(Session::dtls12).cloned().filter(|session| {
                settings.resumption
                    && config.made(&session.owner)
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
                rng,
            ))
        };
        let part_12 = parts::Dtls12::INCLUDED
            .filter(|_| settings.suites_12_with(psk.is_some(), verifies).next().is_some());
        let offers = match (offer_13, part_12) {
            (Some(offer), None) => Offers::Dtls13(offer),
            (Some(offer), Some(part)) => {
                Offers::Both(offer, part, offer_12(ProtocolVersion::Dtls13, &mut rng))
            }
            (None, offered) => {
                let part = offered.expect("the configuration has a version that it can use");
                Offers::Dtls12(part, offer_12(ProtocolVersion::Dtls12, &mut rng))
            }
        };
        let psk = psk.cloned();
        let part = config.part;
        let mut state = Box::new(Self { part, random, psk, certificates, cid, offers });
        let mut channel = Channel::new(KeptRandom::new(rng), settings, 0, 0);
        let sent = state.send_hello(settings, &mut channel, &[], &[]);
        sent.expect("Settings::check and LONGEST_TICKET keep the first hello short enough");
        (state, channel)
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
            .map_err(|BufferFull| Fault::internal("ClientHello too long"))?;
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
        let certificates = self.certificates.get().map(|own| (own, VerifierOffer::of(own)));
        let protocols = settings.protocols().iter().map(|name| 1 + name.len()).sum::<usize>();
        let lists = 2 * (settings.suites.len() + settings.groups.len())
            + settings.psk_modes.len()
            + aggregation_extension::LONGEST_SCHEME
                * (settings.aggregation.send.len() + settings.aggregation.receive.len());
        let grease = Grease::new(settings, &self.random);
        let room = HELLO_ROOM
            + lists
            + grease.map_or(0, |_| GREASE_ROOM)
            + psks
            + protocols
            + variable.iter().map(|part| part.len()).sum::<usize>()
            + certificates
                .as_ref()
                .map_or(0, |(offered, verifier)| offered_len(settings, offered, verifier));
        let mut body = alloc::vec![0; room];
        let mut w = Writer::new(&mut body);
        let suites = |w: &mut Writer<'_>| {
            Grease::write(grease, List::Suites, w)?;
            for suite in settings.ordered_suites() {
                if !parts::Sha384::IS_INCLUDED
                    || offer_13.is_some_and(|offer| offer.fits(&self.certificates, suite))
                {
                    w.u16(suite.id.0)?;
                }
            }
            let Some(offer) = offer_12 else { return Ok(()) };
            offer.suites(settings).try_for_each(|suite| w.u16(suite.id.0))?;
            w.u16(EMPTY_RENEGOTIATION_INFO_SCSV)
        };
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
            if let Some((certificates, verifier)) = &certificates {
                write_offer(settings, certificates, verifier, grease, w)?;
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
                    aggregation_extension::write_offer(wanted.receive(), wanted.send(), w)
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
        // The message is kept until the server answers.
        body.shrink_to_fit();
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
                Err(Misbehaviour::illegal("version").into())
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
        if self.offers.dtls13().is_some_and(|offer| offer.retried.is_some()) {
            return Err(Misbehaviour::UnexpectedMessage.into());
        }
        channel.flight.complete();
        // The second hello still offers DTLS 1.3 (RFC 6347, section 4.2.1). A server that speaks it
        // sends no HelloVerifyRequest (RFC 9147, section 5.1), so it must not choose it now.
        self.send_hello(settings, channel, &[], cookie)?;
        if let Offers::Both(_, part, offer) = self.offers {
            self.offers = Offers::Dtls12(part, offer);
        }
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
                    return Err(Misbehaviour::illegal("cookie").into());
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
                return Err(Misbehaviour::illegal("retry group").into());
            }
            offer.share = start_share(settings, &mut channel.rng, group);
        } else if cookie.is_empty() {
            return Err(Misbehaviour::illegal("retry that changes nothing").into());
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
