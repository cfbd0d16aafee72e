//! How a server answers a DTLS 1.2 ClientHello before it keeps any state.

use super::certificates;
use crate::codepoints::{
    EMPTY_RENEGOTIATION_INFO_SCSV, ExtensionType, FALLBACK_SCSV, SignatureScheme,
};
use crate::config::certificates::ServerCertificates;
use crate::config::{ProtocolVersion, ServerConfig};
use crate::credential::OfferedCertificates;
use crate::crypto::{CipherSuite12, NamedGroup};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::certificates::choice::ChosenCertificate;
use crate::handshake::hello_context::{AddressProof, HelloContext};
use crate::handshake::negotiated_extensions;
use crate::handshake::session::{self, Owner, Session};
use crate::handshake::ticket_keys::TicketSealer;
use crate::messages::certificate_extensions::read_schemes;
use crate::messages::certificate12::certificate_room_12;
use crate::messages::extensions::{cipher_suites, groups};
use crate::messages::{ClientHello, HelloVerifyRequest};
use crate::parts::{self, Certificates, PartState};
use crate::tuning::AMPLIFICATION;
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
    /// The server's certificate, unless a PSK or a session is used.
    pub(crate) chosen: ForServerChoice,
    /// The session to resume.
    pub(crate) session: Option<Session>,
    /// The sealer for a new ticket, if the client wants one.
    pub(crate) ticket: Option<TicketSealer>,
    /// Whether the session is to be stored under a session ID.
    pub(crate) remember: Option<parts::Resumption12>,
}

/// The certificate that a server chose.
type ForServerChoice = PartState<Certificates, (Certificates, ChosenCertificate)>;

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
    let ask = *proof != AddressProof::Configured || config.cookies.accepts_unproved().is_none();
    // A cookie also counts if this client was asked for one although others are not.
    let has_cookie = ask || !hello.legacy_cookie.is_empty();
    let made = if has_cookie && *proof != AddressProof::Renewed {
        jar.open12(now, rng, from, &hello)
    } else {
        None
    };
    let mut verify_request = || {
        let cookie = jar.bake12(now, rng, from, &hello);
        let mut request = alloc::vec![0; 3 + cookie.len()];
        HelloVerifyRequest { cookie: &cookie }
            .write(&mut Writer::new(&mut request))
            .map_err(|_| Fault::internal("HelloVerifyRequest too long"))?;
        Ok(HelloDecision12::Verify(request))
    };
    if ask && made.is_none() {
        return verify_request();
    }
    let extension = |kind| hello.extensions.get(kind);
    let extended_master = negotiated_extensions::has_extended_master_secret(hello.extensions)?;
    if settings.require_extended_master_secret && !extended_master {
        return Err(Misbehaviour::insecure("handshake without extended_master_secret").into());
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
    let Choice { suite, group, chosen } = choose(config, &hello)?;
    // The flight would not fit what may be sent to an unproved address.
    if made.is_none()
        && config.cookies.limits_unproved().is_some()
        && chosen.get().is_some_and(|(_, chosen)| flight_room(chosen) > AMPLIFICATION * body.len())
    {
        return verify_request();
    }

    let wants_ticket = extension(ExtensionType::SESSION_TICKET);
    let tickets = sessions.tickets(now, rng, settings).filter(|_| settings.uses_tickets());
    let session = match wants_ticket {
        Some(ticket) if !ticket.is_empty() => {
            tickets.as_ref().and_then(|keys| session::open(keys, now, settings.provider, ticket))
        }
        _ => sessions.by_id(now, hello.legacy_session_id),
    };
    // RFC 5246, section 7.4.1.2: a resumed session keeps its suite and secret, otherwise a new
    // session is made.
    let session = session.filter(|session| {
        settings.resumption
            && offered.clone().any(|number| number == session.suite.0)
            && settings.suites_12().any(|suite| suite.id == session.suite)
            && match &session.owner {
                Owner::Psk(owner) => owner.is_known(&*config.psks),
                Owner::Certificates(owner) => {
                    config.certificates.get().zip(chosen.get()).is_some_and(
                        |(certificates, (_, chosen))| {
                            let name = chosen.server_name.as_deref();
                            owner.is_of_server(certificates, Some(&chosen.signer.key), name)
                        },
                    )
                }
            }
    });
    // RFC 7627, section 5.3: resumption without the session's extended master secret is refused; a
    // new session is no valid answer.
    if session.as_ref().is_some_and(|session| session.extended_master && !extended_master) {
        return Err(Misbehaviour::insecure("resumption").into());
    }
    let session = session.filter(|session| session.extended_master == extended_master);
    let suite = session
        .as_ref()
        .and_then(|session| settings.provider.suite_12(session.suite))
        .unwrap_or(suite);
    let is_signed = session.is_none() && suite.exchange.is_signed();
    let chosen = if is_signed { chosen } else { PartState::EMPTY };
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
        chosen,
        secure_renegotiation: renegotiation || signals(EMPTY_RENEGOTIATION_INFO_SCSV),
        session,
        ticket,
        remember: parts::Resumption12::INCLUDED
            .filter(|_| settings.resumption && config.remembered_sessions > 0),
    })))
}

/// The bytes of a flight with this certificate, or more: all but the Certificate and the list of
/// authorities are shorter than 500.
fn flight_room(chosen: &ChosenCertificate) -> usize {
    let verifier = chosen.request.as_ref().and_then(|asked| asked.clients.verifier());
    let authorities = verifier.map_or_else(Vec::new, |verifier| verifier.authorities());
    let names: usize = authorities.iter().map(|name| 2 + name.len()).sum();
    certificate_room_12(chosen.signer.key.entries()) + names + 500
}

/// The suite that the server prefers, with what it needs.
struct Choice {
    suite: &'static CipherSuite12,
    group: Option<NamedGroup>,
    /// The server's certificate, if the client takes one of those it has.
    chosen: ForServerChoice,
}

/// Selects the preferred common suite for which the server has a credential, and the group if the
/// suite needs one.
fn choose(config: &ServerConfig, hello: &ClientHello<'_>) -> Result<Choice, Fault> {
    let settings = &config.settings;
    let offered = cipher_suites(hello.cipher_suites)?;
    let group = match hello.extensions.get(ExtensionType::SUPPORTED_GROUPS) {
        Some(content) => {
            let theirs = groups(content)?;
            let mut ours = settings.groups.iter().copied().filter(|group| {
                settings.provider.group(*group).is_some_and(|group| !group.is_kem())
            });
            ours.find(|group| theirs.clone().any(|g| g == *group))
        }
        // RFC 8422, section 4: the client leaves the choice to the server, and every client
        // supports P-256.
        None => settings.groups.iter().copied().find(|group| *group == NamedGroup::P256),
    };
    let has_psks = !config.psks.is_empty();
    let common = settings
        .suites_12_with(has_psks, config.certificates.get().is_some())
        .filter(|suite| offered.clone().any(|number| number == suite.id.0));
    let mut failure = Fault::from(match common.clone().next() {
        Some(_) => Incompatibility::Group,
        None => Incompatibility::CipherSuite,
    });
    let usable = common.filter(|suite| !suite.exchange.is_ephemeral() || group.is_some());
    let signed = usable.clone().filter(|suite| suite.exchange.is_signed());
    let mut chosen = ForServerChoice::EMPTY;
    if let Some(certificates) =
        config.certificates.get().filter(|_| signed.clone().next().is_some())
    {
        let fits = |scheme: &SignatureScheme| {
            signed.clone().any(|suite| certificates::fits(*scheme, suite.exchange))
        };
        match choose_certificate(certificates, hello, fits) {
            Ok(choice) => chosen.set(certificates.part, (certificates.part, choice)),
            Err(fault) => failure = fault,
        }
    }
    let can_sign = |suite: &&CipherSuite12| {
        let scheme = chosen.get().map(|(_, chosen)| chosen.signer.scheme);
        !suite.exchange.is_signed()
            || scheme.is_some_and(|scheme| certificates::fits(scheme, suite.exchange))
    };
    let suite = usable.clone().find(can_sign).ok_or(failure)?;
    Ok(Choice { suite, group: group.filter(|_| suite.exchange.is_ephemeral()), chosen })
}

/// Chooses the server's certificate, which must sign with a scheme that fits a common suite.
#[inline(never)]
fn choose_certificate(
    certificates: &ServerCertificates,
    hello: &ClientHello<'_>,
    fits: impl Fn(&SignatureScheme) -> bool,
) -> Result<ChosenCertificate, Fault> {
    // A client without the extension accepts signatures with SHA-1 (RFC 5246, section 7.4.1.4.1),
    // which this server does not make.
    let mut schemes = match hello.extensions.get(ExtensionType::SIGNATURE_ALGORITHMS) {
        Some(content) => read_schemes(content)?,
        None => Vec::new(),
    };
    schemes.retain(fits);
    let groups: Vec<NamedGroup> = match hello.extensions.get(ExtensionType::SUPPORTED_GROUPS) {
        Some(content) => groups(content)?.collect(),
        None => Vec::new(),
    };
    let accepted =
        OfferedCertificates { groups: &groups, ..OfferedCertificates::new(&[], &schemes) };
    ChosenCertificate::accepted_by(certificates, hello.extensions, accepted)
}
