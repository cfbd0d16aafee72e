//! How a server answers a ClientHello before it keeps any state.

use super::cookie::{CookieJar, Retry};
use super::dtls12;
use super::dtls12::hello_decision::{AcceptedHello12, HelloDecision12};
use super::hello_context::{AddressProof, HelloContext};
use super::resumption::HelloTickets;
use super::ticket_keys::TicketId;
use crate::codepoints::{
    DTLS_1_2, DTLS_1_3, ExtensionType, HELLO_RETRY_REQUEST_RANDOM, HandshakeType,
    PskKeyExchangeMode,
};
use crate::config::{ProtocolVersion, ServerConfig, Settings, preferable};
use crate::crypto::{CipherSuite, CipherSuiteId, Hash, NamedGroup, Sha256, Transcript};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::messages::extensions::{
    KeyShareEntry, OfferedPsks, cipher_suites, client_shares, groups, psk_modes, sole_vec16,
    versions, write_extension,
};
use crate::messages::hello::write_server_hello;
use crate::messages::{ClientHello, aggregation as aggregation_extension};
use crate::parts::{self, OfPart};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Instant, Random, Writer};

use super::absorb;

/// How the keys will be exchanged.
#[derive(Clone, Copy, Debug)]
enum Exchange<'a> {
    /// The PSK alone.
    Psk,
    /// The PSK with the client's key share.
    KeyShare(parts::KeyExchange, KeyShareEntry<'a>),
    /// The client must send a share in this group.
    Retry(parts::KeyExchange, NamedGroup),
}

/// Everything from which the server's first flight is computed.
#[derive(Debug)]
pub(crate) struct AcceptedHello<'a> {
    pub(crate) hello: ClientHello<'a>,
    /// The hello's body, without any header.
    pub(crate) body: &'a [u8],
    pub(crate) suite: &'static CipherSuite,
    /// The client's share in a common group, if the exchange is to use one.
    pub(crate) share: Option<(parts::KeyExchange, KeyShareEntry<'a>)>,
    /// The client's PSKs, if it has any that can be used.
    pub(crate) psks: Option<OfferedPsks<'a>>,
    /// Whether a PSK is used alone, without `share`.
    pub(crate) psk_alone: bool,
    /// Whether the server can authenticate itself with a certificate if it knows none of the PSKs.
    pub(crate) takes_certificates: bool,
    /// The schemes of the records that this server sends and receives.
    pub(crate) send: Scheme,
    pub(crate) receive: Scheme,
    pub(crate) answer_aggregation: bool,
    /// The transcript before this hello: empty, or the first hello's hash and the retry request.
    pub(crate) transcript: Box<Transcript>,
    /// When the hello's cookie was made, if it has one: the client has then proved its address.
    pub(crate) cookie: Option<Instant>,
    /// The ticket to resume, and the tickets for the client.
    pub(crate) tickets: HelloTickets,
    /// Whether the client offers early data.
    pub(crate) offers_early_data: bool,
}

/// What to do with a ClientHello.
#[derive(Debug)]
pub(crate) enum HelloDecision<'a> {
    /// Ask for another one and keep no state.
    Ask(HelloRequest),
    /// Begin the handshake.
    Accept(AdmittedClient<'a>),
}

/// A HelloRetryRequest or HelloVerifyRequest.
#[derive(Debug)]
pub(crate) struct HelloRequest {
    pub(crate) kind: HandshakeType,
    pub(crate) body: Vec<u8>,
}

/// A client that a server has accepted, in the version that was chosen.
#[derive(Debug)]
pub(crate) enum AdmittedClient<'a> {
    Dtls13(Box<AcceptedHello<'a>>),
    Dtls12(OfPart<parts::Dtls12, Box<AcceptedHello12<'a>>>),
}

impl AdmittedClient<'_> {
    /// The time when the cookie in the client's hello was made, if it has one: the client has then
    /// proved its address.
    pub(crate) fn cookie(&self) -> Option<Instant> {
        match self {
            Self::Dtls13(accepted) => accepted.cookie,
            Self::Dtls12(accepted) => accepted.cookie,
        }
    }

    /// The ticket of DTLS 1.3 that the client may resume.
    pub(crate) fn ticket(&self) -> Option<TicketId> {
        match self {
            Self::Dtls13(accepted) => accepted.tickets.opened.get().map(|ticket| ticket.id),
            Self::Dtls12(_) => None,
        }
    }
}

/// Selects the version to use with a client: 1.2 only if the client speaks no newer one that this
/// server speaks (RFC 8446, section 4.2.1).
fn choose_version(settings: &Settings, hello: &ClientHello<'_>) -> Result<ProtocolVersion, Fault> {
    let (theirs_13, theirs_12) = match hello.extensions.get(ExtensionType::SUPPORTED_VERSIONS) {
        Some(content) => {
            let theirs = versions(content)?;
            let speaks = |version| theirs.clone().any(|theirs| theirs == version);
            (speaks(DTLS_1_3), speaks(DTLS_1_2))
        }
        // Newer DTLS versions have smaller numbers.
        None => (false, hello.legacy_version <= DTLS_1_2),
    };
    if theirs_13 && settings.speaks(ProtocolVersion::Dtls13) {
        Ok(ProtocolVersion::Dtls13)
    } else if theirs_12 && settings.speaks(ProtocolVersion::Dtls12) {
        Ok(ProtocolVersion::Dtls12)
    } else {
        Err(Incompatibility::Version.into())
    }
}

/// Parses a ClientHello with message number `sequence` and decides how to answer it.
#[inline(never)]
pub(crate) fn consider<'a>(
    mut reception: HelloContext<'_>,
    sequence: u16,
    body: &'a [u8],
) -> Result<HelloDecision<'a>, Fault> {
    let hello = ClientHello::decode(body)?;
    match choose_version(&reception.config.settings, &hello)? {
        ProtocolVersion::Dtls12 => {
            Ok(match dtls12::hello_decision::consider(&mut reception, sequence, hello, body)? {
                HelloDecision12::Verify(body) => {
                    let kind = HandshakeType::HELLO_VERIFY_REQUEST;
                    HelloDecision::Ask(HelloRequest { kind, body })
                }
                HelloDecision12::Accept(accepted) => {
                    let part = accepted.suite.part;
                    HelloDecision::Accept(AdmittedClient::Dtls12(OfPart::new(part, accepted)))
                }
            })
        }
        ProtocolVersion::Dtls13 => consider_13(&mut reception, hello, body),
    }
}

fn consider_13<'a>(
    reception: &mut HelloContext<'_>,
    hello: ClientHello<'a>,
    body: &'a [u8],
) -> Result<HelloDecision<'a>, Fault> {
    let HelloContext { config, jar, sessions, rng, now, from, proof } = reception;
    let (now, from, proof) = (*now, *from, *proof);
    let settings = &config.settings;
    let extension = |kind| hello.extensions.get(kind);
    if hello.compression_methods != [0] {
        return Err(Misbehaviour::illegal("compression methods").into());
    }
    // RFC 9147, section 5.3.
    if !hello.legacy_cookie.is_empty() {
        return Err(Misbehaviour::illegal("legacy cookie").into());
    }
    let psks = extension(ExtensionType::PRE_SHARED_KEY).map(OfferedPsks::decode).transpose()?;
    if psks.is_some() && hello.extensions.last() != Some(ExtensionType::PRE_SHARED_KEY) {
        return Err(Misbehaviour::illegal("position of pre_shared_key").into());
    }
    let certified = config.certificates.get().is_some();
    let (suite, schemes) = choose_suite(settings, certified, psks.as_ref(), &hello)?;
    let psks = psks.filter(|psks| fits(psks, suite));
    let Exchanges { with_psk, with_certificate } =
        choose_exchanges(config, &hello, psks.is_some())?;
    // A group is asked for if either exchange may need it: which of the two is used depends on what
    // the store of PSKs answers to the second hello.
    let (first, second) = (with_psk, with_certificate);
    let exchange = match (first.or(second), second) {
        (Some(Exchange::Psk), Some(other)) => other,
        (Some(exchange), _) => exchange,
        (None, _) => return Err(Misbehaviour::missing("pre_shared_key").into()),
    };

    let opened = match extension(ExtensionType::COOKIE) {
        Some(content) => {
            let cookie = sole_vec16(content)?;
            let (retry, made) =
                jar.open(now, rng, from, cookie).ok_or(Misbehaviour::illegal("cookie"))?;
            Some((retry, made, cookie))
        }
        None => None,
    };
    let share = match (&opened, exchange) {
        (None, Exchange::Retry(_, group)) => {
            return Ok(bake_retry(suite, Some(group), jar, rng, now, from, body));
        }
        (None, _)
            if proof != AddressProof::Configured || config.cookies.accepts_unproved().is_none() =>
        {
            return Ok(bake_retry(suite, None, jar, rng, now, from, body));
        }
        (Some(_), Exchange::Retry(..)) => {
            return Err(Misbehaviour::illegal("key share").into());
        }
        (_, Exchange::Psk) => None,
        (_, Exchange::KeyShare(part, share)) => Some((part, share)),
    };
    let mut transcript = Box::new(match &opened {
        None => Transcript::new(suite.hash),
        Some((retry, ..)) => Transcript::of_message_hash(suite.hash, &retry.hello_hash),
    });
    if let Some((retry, _, cookie)) = &opened {
        // The second hello must lead to the suite and group in the retry request (RFC 8446, section
        // 4.1.4).
        let same_group = match (retry.group, share) {
            (Some(group), Some((_, share))) => group == share.group,
            (Some(_), None) => false,
            (None, _) => true,
        };
        if retry.suite != suite.id || !same_group {
            return Err(Misbehaviour::illegal("second ClientHello").into());
        }
        let request = write_retry(retry.suite, retry.group, cookie);
        absorb(&mut transcript, HandshakeType::SERVER_HELLO, &request);
    }
    let cookie = opened.map(|(_, made, _)| made);
    let (receive, send) = schemes.unwrap_or((Scheme::Plain, Scheme::Plain));
    let offers_early_data = match extension(ExtensionType::EARLY_DATA) {
        Some([]) => true,
        Some(_) => return Err(DecodeError::invalid("early_data").into()),
        None => false,
    };
    // RFC 8446, section 4.1.2: the second hello has no early data.
    if offers_early_data && cookie.is_some() {
        return Err(Misbehaviour::illegal("early_data").into());
    }
    let tickets = config.certificates.get().map_or(0, |_| settings.tickets);
    let count = settings.psk_tickets.max(tickets);
    let tickets = HelloTickets::new(settings, sessions, rng, now, count, &hello, psks.as_ref())?;
    let accepted = Box::new(AcceptedHello {
        hello,
        body,
        suite,
        share,
        psks: psks.filter(|_| with_psk.is_some()),
        psk_alone: matches!(with_psk, Some(Exchange::Psk)),
        takes_certificates: with_certificate.is_some(),
        send,
        receive,
        answer_aggregation: schemes.is_some(),
        transcript,
        cookie,
        tickets,
        offers_early_data,
    });
    Ok(HelloDecision::Accept(AdmittedClient::Dtls13(accepted)))
}

/// Schemes from client to server and from server to client.
type Schemes = (Scheme, Scheme);

/// Selects the suite, and the schemes if aggregation was offered and is accepted.
///
/// A suite with the hash of an offered PSK goes before a preferred suite; a suite with another hash
/// needs a certificate (RFC 8446, section 4.2.11).
fn choose_suite(
    settings: &Settings,
    certified: bool,
    psks: Option<&OfferedPsks<'_>>,
    hello: &ClientHello<'_>,
) -> Result<(&'static CipherSuite, Option<Schemes>), Fault> {
    let offered = cipher_suites(hello.cipher_suites)?;
    let mut common = settings
        .ordered_suites()
        .filter(|suite| offered.clone().any(|number| number == suite.id.0));
    let with_psk = |suite: &&CipherSuite| psks.is_some_and(|psks| fits(psks, suite));
    let fitting = common.clone().find(with_psk);
    if psks.is_some() && fitting.is_none() && !certified {
        return Err(Incompatibility::CipherSuite.into());
    }
    let policy = &settings.aggregation;
    if policy.is_wanted()
        && let Some(content) = hello.extensions.get(settings.aggregation_extension)
    {
        let (send, receive) = aggregation_extension::Offer::new(content).select(
            |offered| policy.to_send().any(|scheme| scheme == offered),
            |offered| policy.to_receive().any(|scheme| scheme == offered),
        );
        let wanted = (send, receive) != (Scheme::Plain, Scheme::Plain);
        let mut usable = common.clone().filter(|suite| fitting.is_none() || with_psk(suite));
        let mut preferable = preferable();
        if let Some(suite) = usable.find(|suite| wanted && preferable(suite)) {
            return Ok((suite, Some((receive, send))));
        }
    }
    let suite = fitting.or_else(|| common.next()).ok_or(Incompatibility::CipherSuite)?;
    Ok((suite, None))
}

/// Whether a PSK has the hash of the suite, as the length of its binder tells.
fn fits(psks: &OfferedPsks<'_>, suite: &CipherSuite) -> bool {
    psks.iter().any(|psk| psk.binder.len() == suite.hash.algorithm().output_len())
}

/// How the keys will be exchanged with either credential; `None` if it cannot be used.
struct Exchanges<'a> {
    with_psk: Option<Exchange<'a>>,
    with_certificate: Option<Exchange<'a>>,
}

/// Selects the key exchanges. At least one of them is possible, or the fault says why not.
fn choose_exchanges<'a>(
    config: &ServerConfig,
    hello: &ClientHello<'a>,
    has_psks: bool,
) -> Result<Exchanges<'a>, Fault> {
    let settings = &config.settings;
    let with_psk = has_psks.then(|| choose_psk_exchange(settings, hello));
    let verifies = hello.extensions.get(ExtensionType::SIGNATURE_ALGORITHMS).is_some();
    let certified = config.certificates.get().is_some();
    let with_certificate = (verifies && certified).then(|| choose_group(settings, hello));
    match (with_psk, with_certificate) {
        (Some(Err(fault)), None | Some(Err(_))) | (None, Some(Err(fault))) => Err(fault),
        (None, None) if certified => Err(Misbehaviour::missing("signature_algorithms").into()),
        (None, None) if verifies => Err(Incompatibility::Certificate.into()),
        (None, None) => Err(Misbehaviour::missing("pre_shared_key").into()),
        (with_psk, with_certificate) => Ok(Exchanges {
            with_psk: with_psk.and_then(Result::ok),
            with_certificate: with_certificate.and_then(Result::ok),
        }),
    }
}

/// Selects the group of a key exchange, and the client's share if there is one.
fn choose_group<'a>(settings: &Settings, hello: &ClientHello<'a>) -> Result<Exchange<'a>, Fault> {
    let part = parts::KeyExchange::INCLUDED.ok_or(Incompatibility::Group)?;
    let extension = |kind| hello.extensions.get(kind);
    let (Some(supported), Some(shares)) =
        (extension(ExtensionType::SUPPORTED_GROUPS), extension(ExtensionType::KEY_SHARE))
    else {
        return Err(Misbehaviour::missing("key_share").into());
    };
    let supported = groups(supported)?;
    let ours = || settings.groups.iter().filter(|group| supported.clone().any(|g| g == **group));
    // A group whose share is present goes before a preferred group: it saves a round trip.
    for group in ours() {
        if let Some(share) = client_shares(shares)?.find(|s| s.group == *group) {
            return Ok(Exchange::KeyShare(part, share));
        }
    }
    ours().next().map(|group| Exchange::Retry(part, *group)).ok_or(Incompatibility::Group.into())
}

fn choose_psk_exchange<'a>(
    settings: &Settings,
    hello: &ClientHello<'a>,
) -> Result<Exchange<'a>, Fault> {
    let extension = |kind| hello.extensions.get(kind);
    let content = extension(ExtensionType::PSK_KEY_EXCHANGE_MODES)
        .ok_or(Misbehaviour::missing("psk_key_exchange_modes"))?;
    let offered = psk_modes(content)?;
    let mut failure = Fault::from(Incompatibility::PskMode);
    for mode in &settings.psk_modes {
        if !offered.clone().any(|offered| offered == *mode) {
            continue;
        }
        match *mode {
            PskKeyExchangeMode::PSK_KE => return Ok(Exchange::Psk),
            PskKeyExchangeMode::PSK_DHE_KE => match choose_group(settings, hello) {
                Err(
                    fault @ (Fault::Incompatible(_)
                    | Fault::Misbehaved(Misbehaviour::MissingExtension(_))),
                ) => failure = fault,
                chosen => return chosen,
            },
            _ => {}
        }
    }
    Err(failure)
}

#[inline(never)]
fn bake_retry<'a>(
    suite: &CipherSuite,
    group: Option<NamedGroup>,
    jar: &mut CookieJar,
    rng: &mut Random,
    now: Instant,
    from: SocketAddr,
    body: &[u8],
) -> HelloDecision<'a> {
    let mut transcript = Transcript::new(suite.hash);
    absorb(&mut transcript, HandshakeType::CLIENT_HELLO, body);
    let retry = Retry { suite: suite.id, group, hello_hash: transcript.hash() };
    let cookie = jar.bake(now, rng, from, &retry);
    let body = write_retry(suite.id, group, &cookie);
    HelloDecision::Ask(HelloRequest { kind: HandshakeType::SERVER_HELLO, body })
}

/// Writes the HelloRetryRequest for a cookie. The bytes must be equal when it is sent and when it is
/// reconstructed for the transcript.
fn write_retry(suite: CipherSuiteId, group: Option<NamedGroup>, cookie: &[u8]) -> Vec<u8> {
    server_hello(128 + cookie.len(), &HELLO_RETRY_REQUEST_RANDOM, suite, &|w| {
        if let Some(group) = group {
            write_extension(w, ExtensionType::KEY_SHARE, |w| w.u16(group.0))?;
        }
        write_extension(w, ExtensionType::COOKIE, |w| w.vec16(|w| w.bytes(cookie)))
    })
}

/// The body of a ServerHello or HelloRetryRequest of DTLS 1.3, for which `room` bytes are enough.
/// `extensions` writes those beside the version.
pub(super) fn server_hello(
    room: usize,
    random: &[u8; 32],
    suite: CipherSuiteId,
    extensions: &dyn Fn(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Vec<u8> {
    bounded_body(room, &|w| {
        write_server_hello(w, random, &[], suite, |w| {
            write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| w.u16(DTLS_1_3))?;
            extensions(w)
        })
    })
}

/// The body of a message of a DTLS 1.3 server, for which `room` bytes are enough: all that the server
/// has to say has a bounded length.
pub(super) fn bounded_body(
    room: usize,
    write: &dyn Fn(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Vec<u8> {
    let mut body = alloc::vec![0; room];
    let mut w = Writer::new(&mut body);
    write(&mut w).expect("there is room for it");
    let len = w.len();
    body.truncate(len);
    body
}

/// The first bytes of the SHA-256 of a ClientHello's body, to tell a retransmission from a new attempt.
/// They are few, because an endpoint has one for each association, and a client with two hellos of one
/// fingerprint gains nothing: the second one is taken for the first, repeated.
pub(crate) type Fingerprint = [u8; 8];

/// The fingerprint of a ClientHello with this body.
pub(crate) fn fingerprint(body: &[u8]) -> Fingerprint {
    let mut hash = [0; 32];
    Sha256.digest(&[body], &mut hash);
    *hash.first_chunk().expect("it is longer")
}
