//! The forms in which what an association has negotiated, and its addresses, are written.

use crate::codepoints::{CipherSuiteId, NamedGroup};
use crate::config::ProtocolVersion;
use crate::credential::PeerKey;
use crate::handshake::Negotiated;
use crate::handshake::certificates::AuthenticatedPeer;
use crate::parts::{self, PartState};
use crate::record::ConnectionId;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{AddressPair, DecodeError, Reader, Writer};

/// The bits of the first byte.
const DTLS_1_2: u8 = 1;
const RESUMED: u8 = 1 << 1;
const EARLY_DATA: u8 = 1 << 2;
const EXTENDED_MASTER: u8 = 1 << 3;
const RETURN_ROUTABILITY: u8 = 1 << 4;
const GROUP: u8 = 1 << 5;
const CERTIFICATES: u8 = 1 << 6;
const PROTOCOL: u8 = 1 << 7;

/// Writes the parameters of an association without shared tags.
pub(in crate::connection) fn write_negotiated(
    negotiated: &Negotiated,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    let bits = [
        (negotiated.version == ProtocolVersion::Dtls12, DTLS_1_2),
        (negotiated.resumed, RESUMED),
        (negotiated.early_data, EARLY_DATA),
        (negotiated.extended_master, EXTENDED_MASTER),
        (negotiated.return_routability, RETURN_ROUTABILITY),
        (negotiated.group.is_some(), GROUP),
        (negotiated.certificates.get().is_some(), CERTIFICATES),
        (negotiated.protocol.get().is_some(), PROTOCOL),
    ];
    w.u8(bits.iter().fold(0, |byte, (set, bit)| byte | if *set { *bit } else { 0 }))?;
    w.u16(negotiated.suite.0)?;
    if let Some(group) = negotiated.group {
        w.u16(group.0)?;
    }
    w.varint(negotiated.record_limit as u64)?;
    w.vec8(|w| w.bytes(&negotiated.send_cid))?;
    w.vec8(|w| w.bytes(&negotiated.receive_cid))?;
    write_bytes(&negotiated.psk_identity, w)?;
    if let Some(protocol) = negotiated.protocol.get() {
        write_bytes(protocol, w)?;
    }
    if let Some(AuthenticatedPeer { key, server_name }) = negotiated.certificates.get() {
        write_name(server_name.as_deref(), w)?;
        w.u8(key.is_some().into())?;
        if let Some(PeerKey { spki_sha256, name, .. }) = key {
            w.bytes(spki_sha256)?;
            write_name(name.as_deref(), w)?;
        }
    }
    Ok(())
}

/// Reads what [`write_negotiated`] has written, which does not say which key was used.
pub(in crate::connection) fn read_negotiated(
    suite_name: &'static str,
    r: &mut Reader<'_>,
) -> Result<Negotiated, DecodeError> {
    let bits = r.u8()?;
    let has = |bit| bits & bit != 0;
    let suite = CipherSuiteId(r.u16()?);
    let group = if has(GROUP) { Some(NamedGroup(r.u16()?)) } else { None };
    let record_limit = r.varint()? as usize;
    let (send_cid, receive_cid) = (ConnectionId::read(r)?, ConnectionId::read(r)?);
    let psk_identity = read_bytes(r)?;
    let mut protocol = PartState::EMPTY;
    if let Some(part) = parts::Alpn::INCLUDED.filter(|_| has(PROTOCOL)) {
        protocol.set(part, read_bytes(r)?);
    }
    let mut certificates = PartState::EMPTY;
    if let Some(part) = parts::Certificates::INCLUDED.filter(|_| has(CERTIFICATES)) {
        let server_name = read_name(r)?;
        let key = match r.u8()? {
            0 => None,
            _ => Some(PeerKey::new(r.array()?, read_name(r)?)),
        };
        certificates.set(part, AuthenticatedPeer { key, server_name });
    }
    let version = if has(DTLS_1_2) { ProtocolVersion::Dtls12 } else { ProtocolVersion::Dtls13 };
    Ok(Negotiated {
        version,
        suite,
        suite_name,
        group,
        psk_identity,
        key_check: None,
        send: Scheme::Plain,
        receive: Scheme::Plain,
        resumed: has(RESUMED),
        early_data: has(EARLY_DATA),
        extended_master: has(EXTENDED_MASTER),
        record_limit,
        send_cid,
        receive_cid,
        return_routability: has(RETURN_ROUTABILITY),
        certificates,
        protocol,
    })
}

/// Writes the peer's address, and the local one if it is known.
pub(in crate::connection) fn write_addresses(
    AddressPair { peer, local }: AddressPair,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    write_ip(Some(peer.ip()), w)?;
    w.u16(peer.port())?;
    if let SocketAddr::V6(peer) = peer {
        w.varint(peer.flowinfo().into())?;
        w.varint(peer.scope_id().into())?;
    }
    write_ip(local, w)
}

/// Reads what [`write_addresses`] has written.
pub(in crate::connection) fn read_addresses(
    r: &mut Reader<'_>,
) -> Result<AddressPair, DecodeError> {
    let ip = read_ip(r)?.ok_or(DecodeError::invalid("address"))?;
    let port = r.u16()?;
    let peer = match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(ip) => {
            let (flow, scope) = (r.varint()? as u32, r.varint()? as u32);
            SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope))
        }
    };
    Ok(AddressPair { peer, local: read_ip(r)? })
}

fn write_ip(ip: Option<IpAddr>, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    match ip {
        None => w.u8(0),
        Some(IpAddr::V4(ip)) => {
            w.u8(4)?;
            w.bytes(&ip.octets())
        }
        Some(IpAddr::V6(ip)) => {
            w.u8(6)?;
            w.bytes(&ip.octets())
        }
    }
}

fn read_ip(r: &mut Reader<'_>) -> Result<Option<IpAddr>, DecodeError> {
    Ok(match r.u8()? {
        4 => Some(Ipv4Addr::from(r.array::<4>()?).into()),
        6 => Some(Ipv6Addr::from(r.array::<16>()?).into()),
        _ => None,
    })
}

fn write_bytes(bytes: &[u8], w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.varint(bytes.len() as u64)?;
    w.bytes(bytes)
}

fn read_bytes(r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let len = r.varint()? as usize;
    Ok(r.take(len)?.to_vec())
}

/// Writes a name, with one added to its length: zero stands for no name.
fn write_name(name: Option<&str>, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    w.varint(name.map_or(0, |name| name.len() as u64 + 1))?;
    w.bytes(name.unwrap_or_default().as_bytes())
}

fn read_name(r: &mut Reader<'_>) -> Result<Option<String>, DecodeError> {
    let Some(len) = r.varint()?.checked_sub(1) else { return Ok(None) };
    let name = String::from_utf8(r.take(len as usize)?.to_vec());
    name.map(Some).map_err(|_| DecodeError::invalid("name"))
}
