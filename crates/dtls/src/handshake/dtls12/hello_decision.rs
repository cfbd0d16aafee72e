//! How a server answers a DTLS 1.2 ClientHello before it keeps any state.

use crate::codepoints::{EMPTY_RENEGOTIATION_INFO_SCSV, ExtensionType, FALLBACK_SCSV};
use crate::config::{CookiePolicy, ProtocolVersion, ServerConfig};
use crate::crypto::{CipherSuite12, Exchange12, NamedGroup};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::hello_context::{AddressProof, HelloContext};
use crate::handshake::negotiated_extensions;
use crate::handshake::session::{Session, TicketSealer};
use crate::messages::extensions::{cipher_suites, groups};
use crate::messages::{ClientHello, HelloVerifyRequest};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::{Encode, Instant, Writer};

/// Everything from which the server's first flight is made.
#[derive(Debug)]
pub(crate) struct AcceptedHello12<'a> {
    pub(crate) hello: ClientHello<'a>,
    /// The hello's body, without any header, and its message number.
    pub(crate) body: &'a [u8],
    pub(crate) sequence: u16,
    /// When the hello's cookie was made, if it has one: the client has then proved its address.
    pub(crate) cookie: Option<Instant>,
    pub(crate) suite: &'static CipherSuite12,
    pub(crate) group: Option<NamedGroup>,
    pub(crate) extended_master: bool,
    /// Whether the client supports secure renegotiation (RFC 5746).
    pub(crate) secure_renegotiation: bool,
    /// The session to resume.
    pub(crate) session: Option<Session>,
    /// The sealer for a new ticket, if the client wants one.
    pub(crate) ticket: Option<TicketSealer>,
    /// Whether the session is to be stored under a session ID.
    pub(crate) remember: bool,
}

/// What to do with a ClientHello of DTLS 1.2.
#[derive(Debug)]
pub(crate) enum HelloDecision12<'a> {
    /// Send this HelloVerifyRequest and keep no state.
    Verify(Vec<u8>),
    /// Begin the handshake.
    Accept(Box<AcceptedHello12<'a>>),
}

/// Decides how to answer a hello whose client speaks no newer version.
#[inline(never)]
pub(crate) fn consider<'a>(
    reception: &mut HelloContext<'_>,
    sequence: u16,
    hello: ClientHello<'a>,
    body: &'a [u8],
) -> Result<HelloDecision12<'a>, Fault> {
    let HelloContext { config, jar, sessions, rng, now, from, proof } = reception;
    let (now, from) = (*now, *from);
    let settings = &config.settings;
    // Nothing is computed for a client that has not proved its address.
    let ask = *proof != AddressProof::Configured || config.cookies == CookiePolicy::Always;
    // A cookie also counts if this client was asked for one although others are not.
    let has_cookie = ask || !hello.legacy_cookie.is_empty();
    let made = if has_cookie && *proof != AddressProof::Renewed {
        jar.open12(now, rng, from, &hello)
    } else {
        None
    };
    if ask && made.is_none() {
        let cookie = jar.bake12(now, rng, from, &hello);
        let mut request = alloc::vec![0; 3 + cookie.len()];
        HelloVerifyRequest { cookie: &cookie }
            .write(&mut Writer::new(&mut request))
            .map_err(|_| Fault::Internal("HelloVerifyRequest too long"))?;
        return Ok(HelloDecision12::Verify(request));
    }
    let extension = |kind| hello.extensions.get(kind);
    let extended_master = negotiated_extensions::has_extended_master_secret(hello.extensions)?;
    if settings.require_extended_master_secret && !extended_master {
        return Err(Misbehaviour::Insecure("handshake without extended_master_secret").into());
    }
    let offered = cipher_suites(hello.cipher_suites)?;
    let signals = |signal| offered.clone().any(|number| number == signal);
    // RFC 7507, section 3: the client supports a newer version than it offers, and so does this
    // server.
    if signals(FALLBACK_SCSV) && settings.speaks(ProtocolVersion::Dtls13) {
        return Err(Incompatibility::Fallback.into());
    }
    let renegotiation = negotiated_extensions::check_renegotiation_info(hello.extensions)?;
    negotiated_extensions::check_point_formats(hello.extensions)?;
    let (suite, group) = choose(config, &hello)?;

    let wants_ticket = extension(ExtensionType::SESSION_TICKET);
    let tickets = sessions.tickets(now, rng, settings.provider).filter(|_| settings.uses_tickets());
    let session = match wants_ticket {
        Some(ticket) if !ticket.is_empty() => {
            tickets.as_ref().and_then(|keys| keys.open(now, ticket))
        }
        _ => sessions.by_id(now, hello.legacy_session_id),
    };
    // RFC 5246, section 7.4.1.2: a resumed session keeps its suite and secret, otherwise a new
    // session is made.
    let session = session.filter(|session| {
        settings.resumption
            && !hello.legacy_session_id.is_empty()
            && offered.clone().any(|number| number == session.suite.0)
            && settings.suites_12().any(|suite| suite.id == session.suite)
            && session.owner.is_known(&*config.psks)
    });
    // RFC 7627, section 5.3: resumption without the session's extended master secret is refused; a
    // new session is no valid answer.
    if session.as_ref().is_some_and(|session| session.extended_master && !extended_master) {
        return Err(Misbehaviour::Insecure("resumption").into());
    }
    let session = session.filter(|session| session.extended_master == extended_master);
    let suite = session
        .as_ref()
        .and_then(|session| settings.provider.suite_12(session.suite))
        .unwrap_or(suite);
    let may_give = tickets.is_some() && wants_ticket.is_some();
    let ticket = if may_give { sessions.sealer() } else { None };
    Ok(HelloDecision12::Accept(Box::new(AcceptedHello12 {
        hello,
        body,
        sequence,
        cookie: made,
        suite,
        group,
        extended_master,
        secure_renegotiation: renegotiation || signals(EMPTY_RENEGOTIATION_INFO_SCSV),
        session,
        ticket,
        remember: settings.resumption && config.remembered_sessions > 0,
    })))
}

/// Selects the preferred common suite, and the group if the suite needs one.
fn choose(
    config: &ServerConfig,
    hello: &ClientHello<'_>,
) -> Result<(&'static CipherSuite12, Option<NamedGroup>), Fault> {
    let settings = &config.settings;
    let offered = cipher_suites(hello.cipher_suites)?;
    let group = match hello.extensions.get(ExtensionType::SUPPORTED_GROUPS) {
        Some(content) => {
            let theirs = groups(content)?;
            settings.groups.iter().copied().find(|group| theirs.clone().any(|g| g == *group))
        }
        // RFC 8422, section 4: the client leaves the choice to the server, and every client
        // supports P-256.
        None => settings.groups.iter().copied().find(|group| *group == NamedGroup::P256),
    };
    let mut common =
        settings.suites_12().filter(|suite| offered.clone().any(|number| number == suite.id.0));
    let mut failure = Incompatibility::CipherSuite;
    let suite = common.find(|suite| match suite.exchange {
        Exchange12::Psk => true,
        // `Settings::suites_12` has no such suite.
        Exchange12::EcdheEcdsa => false,
        Exchange12::EcdhePsk => {
            failure = Incompatibility::Group;
            group.is_some()
        }
    });
    let suite = suite.ok_or(failure)?;
    Ok((suite, group.filter(|_| suite.exchange == Exchange12::EcdhePsk)))
}
