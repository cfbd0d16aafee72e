//! What must hold when the handshake is complete.

use crate::Failure;
use crate::association::Association;
use crate::flags::Flags;
use lightseal_dtls::codepoints::{DTLS_1_2, DTLS_1_3};
use lightseal_dtls::{Negotiated, ProtocolVersion};

/// Compares what was negotiated with what the case expects.
pub(crate) fn after_handshake(
    flags: &Flags,
    negotiated: &Negotiated,
    association: &Association,
    is_resumption: bool,
    has_retried: bool,
) -> Result<(), Failure> {
    let expected_to_resume = is_resumption && !flags.has("-expect-session-miss");
    same("the session is resumed", negotiated.resumed, expected_to_resume)?;
    let version = match negotiated.version {
        ProtocolVersion::Dtls12 => DTLS_1_2,
        ProtocolVersion::Dtls13 => DTLS_1_3,
    };
    expected(flags, "-expect-version", version)?;
    expected(flags, "-expect-cipher", negotiated.suite.0)?;
    expected(flags, "-expect-curve-id", negotiated.group.map_or(0, |group| group.0))?;
    if flags.has("-expect-extended-master-secret") {
        same("the extended master secret", negotiated.extended_master, true)?;
    }
    if flags.has("-expect-hrr") {
        same("a HelloRetryRequest", has_retried, true)?;
    }
    if flags.has("-expect-no-hrr") {
        same("a HelloRetryRequest", has_retried, false)?;
    }
    if let Some(protocol) = flags.text("-expect-alpn").or(flags.text("-select-alpn")) {
        let negotiated = negotiated.application_protocol().unwrap_or_default();
        same("the application protocol", negotiated, protocol.as_bytes())?;
    }
    let log = association.identities.entries();
    if let Some(expected) = flags.number("-expect-selected-credential")? {
        same("the selected credential", log.selected.unwrap_or(-1), expected)?;
    }
    if let Some(name) = flags.text("-expect-server-name") {
        same("the server's name", negotiated.server_name().unwrap_or_default(), name)?;
    }
    if flags.has("-expect-no-server-name") {
        same("the server's name", negotiated.server_name(), None)?;
    }
    if flags.text("-psk").is_none()
        && !is_resumption
        && (!association.is_server() || flags.has("-require-any-client-certificate"))
    {
        same("a certificate of the peer", log.presented.is_some(), true)?;
    }
    Ok(())
}

fn expected(flags: &Flags, flag: &str, value: u16) -> Result<(), Failure> {
    match flags.number(flag)? {
        Some(number) => same(flag, value, number),
        None => Ok(()),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, expected: T) -> Result<(), Failure> {
    if is == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("{what}: {is:?} instead of {expected:?}")))
}
