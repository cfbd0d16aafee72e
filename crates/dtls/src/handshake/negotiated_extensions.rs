//! Extensions with the same meaning in both versions: record size limits, connection IDs and return
//! routability checks.
//!
//! A DTLS 1.2 server answers them in its ServerHello. A DTLS 1.3 server answers in
//! EncryptedExtensions, except for those on which the records that carry EncryptedExtensions
//! depend: connection IDs (RFC 9146, section 10.2) and return routability (RFC 9853, section 3) are
//! answered in the ServerHello.

use crate::codepoints::{ExtensionType, LEAST_RECORD_SIZE_LIMIT, MAX_CONTENT, UNCOMPRESSED_POINTS};
use crate::config::{ProtocolVersion, Settings};
use crate::error::{Fault, Incompatibility, Misbehaviour};
use crate::handshake::grease::{Grease, List};
use crate::messages::certificate_extensions::{read_protocols, write_protocols};
use crate::messages::extensions::{
    Extensions, MaxFragmentLength, read_connection_id, read_point_formats, read_record_size_limit,
    write_connection_id, write_extension,
};
use crate::parts::{self, Part, PartState};
use crate::record::ConnectionId;
use alloc::vec::Vec;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Writer};

/// What was negotiated with these extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NegotiatedExtensions {
    /// The longest content that this end may send in a record, in bytes.
    pub(crate) record_limit: usize,
    /// The longest content of a record that this end receives, in bytes, inner content type and
    /// padding included.
    pub(crate) receive_limit: usize,
    /// The connection ID in records that this end sends.
    pub(crate) send_cid: ConnectionId,
    /// The connection ID in records that this end receives.
    pub(crate) receive_cid: ConnectionId,
    /// Whether return routability checks are available (RFC 9853).
    pub(crate) return_routability: bool,
    /// The place of the application protocol in this end's list; `None`: none was negotiated.
    pub(crate) protocol: Option<u8>,
}

impl NegotiatedExtensions {
    /// The application protocol.
    pub(crate) fn application_protocol(
        &self,
        settings: &Settings,
    ) -> PartState<parts::Alpn, Vec<u8>> {
        let mut state = PartState::EMPTY;
        let name = self.protocol.and_then(|at| settings.protocols().get(usize::from(at)));
        if let (Some(part), Some(name)) = (parts::Alpn::INCLUDED, name) {
            state.set(part, name.clone());
        }
        state
    }

    pub(crate) const NONE: Self = Self {
        record_limit: MAX_CONTENT,
        receive_limit: MAX_CONTENT + 1,
        send_cid: ConnectionId::EMPTY,
        receive_cid: ConnectionId::EMPTY,
        return_routability: false,
        protocol: None,
    };
}

/// An end's own connection ID, in a build that negotiates them.
fn negotiable(cid: Option<ConnectionId>) -> Option<ConnectionId> {
    cid.filter(|_| parts::ConnectionIds::IS_INCLUDED)
}

/// Writes the client's offer.
pub(crate) fn write_offer(
    settings: &Settings,
    cid: Option<ConnectionId>,
    grease: Option<Grease>,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    if let Some(limit) = settings.max_fragment_length
        && settings.speaks(ProtocolVersion::Dtls12)
    {
        write_extension(w, ExtensionType::MAX_FRAGMENT_LENGTH, |w| w.u8(limit.0))?;
    }
    if let Some(limit) = settings.stated_record_limit() {
        write_extension(w, ExtensionType::RECORD_SIZE_LIMIT, |w| w.u16(limit))?;
    }
    if !settings.protocols().is_empty() {
        write_extension(w, ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION, |w| {
            // Two bytes of a value that no protocol has.
            let first = grease.map(|grease| grease.value(List::Protocols).to_be_bytes().to_vec());
            let names: Vec<_> = first.into_iter().chain(settings.protocols().to_vec()).collect();
            write_protocols(&names, w)
        })?;
    }
    if let Some(cid) = negotiable(cid) {
        write_extension(w, ExtensionType::CONNECTION_ID, |w| write_connection_id(&cid, w))?;
        if settings.return_routability {
            write_extension(w, ExtensionType::RETURN_ROUTABILITY_CHECK, |_| Ok(()))?;
        }
    }
    Ok(())
}

/// What a server accepts of a client's offer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptedExtensions {
    pub(crate) agreed: NegotiatedExtensions,
    max_fragment_length: Option<MaxFragmentLength>,
    record_size_limit: Option<u16>,
    cid: Option<ConnectionId>,
}

impl AcceptedExtensions {
    /// Answers the offer in a ClientHello. `cid` is the connection ID that the client is to use, if
    /// this server uses connection IDs.
    pub(crate) fn new(
        settings: &Settings,
        version: ProtocolVersion,
        offer: Extensions<'_>,
        cid: Option<ConnectionId>,
    ) -> Result<Self, Fault> {
        let mut agreed = NegotiatedExtensions::NONE;
        let mut answer =
            Self { agreed, max_fragment_length: None, record_size_limit: None, cid: None };
        if parts::ConnectionIds::IS_INCLUDED
            && let Some(content) = offer.get(ExtensionType::CONNECTION_ID)
        {
            let theirs = read_connection_id(content)?;
            // If the client's ID is too long, none is negotiated.
            let theirs = ConnectionId::new(theirs)
                .filter(|theirs| theirs.len() <= settings.longest_peer_id());
            if let (Some(own), Some(theirs)) = (cid, theirs) {
                (agreed.receive_cid, agreed.send_cid) = (own, theirs);
                agreed.return_routability = settings.return_routability
                    && offer.get(ExtensionType::RETURN_ROUTABILITY_CHECK).is_some();
                answer.cid = Some(own);
            }
        }
        if parts::RecordSizeLimit::IS_INCLUDED
            && let Some(content) = offer.get(ExtensionType::RECORD_SIZE_LIMIT)
        {
            agreed.record_limit = content_limit(content, version, &agreed)?;
            let most = MAX_CONTENT as u16 + u16::from(version == ProtocolVersion::Dtls13);
            let own = settings.stated_record_limit().unwrap_or(most).min(most);
            answer.record_size_limit = Some(own);
            agreed.receive_limit = own.into();
        } else if version == ProtocolVersion::Dtls12
            && let Some(content) = offer.get(ExtensionType::MAX_FRAGMENT_LENGTH)
        {
            let limit = MaxFragmentLength::decode(content)
                .map_err(|_| Misbehaviour::illegal("max_fragment_length"))?;
            agreed.record_limit = limit.bytes();
            answer.max_fragment_length = Some(limit);
        }
        if !settings.protocols().is_empty()
            && let Some(content) = offer.get(ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION)
        {
            let theirs = read_protocols(content)?;
            let mut ours = (0..).zip(settings.protocols());
            let common = ours.find(|(_, name)| theirs.contains(&name.as_slice()));
            let (at, _) = common.ok_or(Incompatibility::ApplicationProtocol)?;
            agreed.protocol = Some(at);
        }
        Ok(Self { agreed, ..answer })
    }

    /// Writes the answer about record size limits and the application protocol.
    pub(crate) fn write_limits(
        &self,
        settings: &Settings,
        w: &mut Writer<'_>,
    ) -> Result<(), BufferFull> {
        let name = self.agreed.protocol.and_then(|at| settings.protocols().get(usize::from(at)));
        if let Some(name) = name {
            write_extension(w, ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION, |w| {
                write_protocols(core::slice::from_ref(name), w)
            })?;
        }
        if parts::Dtls12::IS_INCLUDED
            && let Some(limit) = self.max_fragment_length
        {
            write_extension(w, ExtensionType::MAX_FRAGMENT_LENGTH, |w| w.u8(limit.0))?;
        }
        if parts::RecordSizeLimit::IS_INCLUDED
            && let Some(limit) = self.record_size_limit
        {
            write_extension(w, ExtensionType::RECORD_SIZE_LIMIT, |w| w.u16(limit))?;
        }
        Ok(())
    }

    /// Writes the answer about connection IDs.
    pub(crate) fn write_cid(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        if let Some(cid) = negotiable(self.cid) {
            write_extension(w, ExtensionType::CONNECTION_ID, |w| write_connection_id(&cid, w))?;
            if self.agreed.return_routability {
                write_extension(w, ExtensionType::RETURN_ROUTABILITY_CHECK, |_| Ok(()))?;
            }
        }
        Ok(())
    }
}

/// Whether a client's offer contained this extension.
pub(crate) fn is_offered(
    settings: &Settings,
    version: ProtocolVersion,
    cid: Option<ConnectionId>,
    kind: ExtensionType,
) -> bool {
    match kind {
        ExtensionType::MAX_FRAGMENT_LENGTH => {
            parts::Dtls12::IS_INCLUDED
                && version == ProtocolVersion::Dtls12
                && settings.max_fragment_length.is_some()
        }
        ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION => !settings.protocols().is_empty(),
        ExtensionType::RECORD_SIZE_LIMIT => settings.stated_record_limit().is_some(),
        ExtensionType::CONNECTION_ID => negotiable(cid).is_some(),
        ExtensionType::RETURN_ROUTABILITY_CHECK => {
            negotiable(cid).is_some() && settings.return_routability
        }
        _ => false,
    }
}

/// Parses a server's answer about connection IDs. Extensions that were not offered have been
/// refused before.
pub(crate) fn read_cid_answer(
    settings: &Settings,
    answer: Extensions<'_>,
    cid: Option<ConnectionId>,
) -> Result<NegotiatedExtensions, Fault> {
    let mut agreed = NegotiatedExtensions::NONE;
    if let Some(own) = negotiable(cid)
        && let Some(content) = answer.get(ExtensionType::CONNECTION_ID)
    {
        let theirs = ConnectionId::new(read_connection_id(content)?)
            .filter(|theirs| theirs.len() <= settings.longest_peer_id())
            .ok_or(Misbehaviour::illegal("connection ID length"))?;
        (agreed.receive_cid, agreed.send_cid) = (own, theirs);
        agreed.return_routability = answer.get(ExtensionType::RETURN_ROUTABILITY_CHECK).is_some();
    }
    Ok(agreed)
}

/// Parses a server's answer about record size limits and the application protocol into `agreed`.
pub(crate) fn read_limit_answer(
    settings: &Settings,
    version: ProtocolVersion,
    answer: Extensions<'_>,
    mut agreed: NegotiatedExtensions,
) -> Result<NegotiatedExtensions, Fault> {
    // What was not offered has been refused before.
    let protocol = answer.get(ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION);
    if let Some(content) = protocol.filter(|_| !settings.protocols().is_empty()) {
        // Exactly one of the offered protocols (RFC 7301, section 3.1).
        let [name] = read_protocols(content)?[..] else {
            return Err(DecodeError::invalid("number of protocols").into());
        };
        let mut ours = (0..).zip(settings.protocols());
        let (at, _) = ours
            .find(|(_, ours)| ours.as_slice() == name)
            .ok_or(Misbehaviour::illegal("application protocol"))?;
        agreed.protocol = Some(at);
    }
    let fragment = match version {
        ProtocolVersion::Dtls12 => answer.get(ExtensionType::MAX_FRAGMENT_LENGTH),
        ProtocolVersion::Dtls13 => None,
    };
    let record = match parts::RecordSizeLimit::INCLUDED {
        Some(_) => answer.get(ExtensionType::RECORD_SIZE_LIMIT),
        None => None,
    };
    match (record, fragment) {
        (Some(_), Some(_)) => return Err(Misbehaviour::illegal("record limits").into()),
        (Some(content), None) => {
            agreed.record_limit = content_limit(content, version, &agreed)?;
            if let Some(own) = settings.stated_record_limit() {
                agreed.receive_limit = own.into();
            }
        }
        (None, Some(content)) => {
            let granted = MaxFragmentLength::decode(content).ok();
            let asked = settings.max_fragment_length.filter(|asked| Some(*asked) == granted);
            agreed.record_limit =
                asked.ok_or(Misbehaviour::illegal("max_fragment_length"))?.bytes();
        }
        (None, None) => {}
    }
    Ok(agreed)
}

/// The longest content under a `record_size_limit`, in bytes: an inner content type counts too (RFC
/// 8449, section 4).
fn content_limit(
    content: &[u8],
    version: ProtocolVersion,
    agreed: &NegotiatedExtensions,
) -> Result<usize, Fault> {
    let limit = read_record_size_limit(content)?;
    if limit < LEAST_RECORD_SIZE_LIMIT {
        return Err(Misbehaviour::illegal("record_size_limit").into());
    }
    let inner_type = version == ProtocolVersion::Dtls13 || !agreed.send_cid.is_empty();
    Ok(usize::from(limit).saturating_sub(inner_type.into()).min(MAX_CONTENT))
}

/// Fails unless uncompressed points are among the peer's `ec_point_formats`, if it sent any (RFC
/// 8422, sections 5.1 and 5.2).
pub(crate) fn check_point_formats(extensions: Extensions<'_>) -> Result<(), Fault> {
    match extensions.get(ExtensionType::EC_POINT_FORMATS).map(read_point_formats).transpose()? {
        Some(formats) if !formats.contains(&UNCOMPRESSED_POINTS) => {
            Err(Misbehaviour::illegal("ec_point_formats").into())
        }
        _ => Ok(()),
    }
}

/// Whether the `extended_master_secret` extension is present, which must be empty (RFC 7627,
/// section 5.1).
pub(crate) fn has_extended_master_secret(extensions: Extensions<'_>) -> Result<bool, Fault> {
    match extensions.get(ExtensionType::EXTENDED_MASTER_SECRET) {
        Some([]) => Ok(true),
        Some(_) => Err(DecodeError::invalid("extended_master_secret").into()),
        None => Ok(false),
    }
}

/// Fails if `renegotiation_info` shows that this is not a first handshake (RFC 5746, sections 3.4
/// and 3.6). Returns whether the extension is present.
pub(crate) fn check_renegotiation_info(extensions: Extensions<'_>) -> Result<bool, Fault> {
    match extensions.get(ExtensionType::RENEGOTIATION_INFO) {
        Some([0]) => Ok(true),
        Some(_) => Err(Misbehaviour::insecure("renegotiation").into()),
        None => Ok(false),
    }
}
