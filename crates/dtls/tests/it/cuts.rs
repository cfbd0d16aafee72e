//! Messages of DTLS 1.2, of connection IDs and of path checks, laid out as their RFCs define them.
//! Each is understood as a whole, and refused when it is truncated anywhere or has one byte more.

use lightseal_core::{Decode, DecodeError};
use lightseal_dtls::messages::extensions::{
    MaxFragmentLength, read_connection_id, read_record_size_limit,
};
use lightseal_dtls::messages::key_exchange::{
    read_ecdhe_psk_client_key_exchange, read_psk_client_key_exchange, read_psk_hint,
};
use lightseal_dtls::messages::{
    ClientHello, EcdhePskServerParams, HelloVerifyRequest, NewConnectionId, NewSessionTicket12,
    RequestConnectionId, ServerHello, return_routability,
};

/// The result of a parser, without the value.
type Read = fn(&[u8]) -> Result<(), DecodeError>;

/// Parses `whole`, and refuses every truncation except those at one of `ends`.
fn check(name: &str, whole: &[u8], ends: &[usize], read: Read) {
    assert_eq!(read(whole), Ok(()), "{name}");
    for cut in 0..whole.len() {
        let result = read(&whole[..cut]);
        assert_eq!(result.is_ok(), ends.contains(&cut), "{name} cut to {cut} bytes: {result:?}");
    }
    let longer = [whole, &[0]].concat();
    assert_eq!(read(&longer), Err(DecodeError::Trailing), "{name} with a byte more");
}

#[test]
fn handshake_messages() {
    check("HelloVerifyRequest", b"\xfe\xff\x04cook", &[], |b| {
        HelloVerifyRequest::decode(b).map(drop)
    });
    check("ServerKeyExchange, PSK", b"\0\x04hint", &[], |b| read_psk_hint(b).map(drop));
    check("ServerKeyExchange, ECDHE_PSK", b"\0\x02id\x03\0\x1d\x03key", &[], |b| {
        EcdhePskServerParams::decode(b).map(drop)
    });
    check("ClientKeyExchange, PSK", b"\0\x02me", &[], |b| {
        read_psk_client_key_exchange(b).map(drop)
    });
    check("ClientKeyExchange, ECDHE_PSK", b"\0\x02me\x03key", &[], |b| {
        read_ecdhe_psk_client_key_exchange(b).map(drop)
    });
    check("NewSessionTicket", b"\0\0\x0e\x10\0\x06ticket", &[], |b| {
        NewSessionTicket12::decode(b).map(drop)
    });
    check("NewConnectionId", b"\0\x05\x01a\x02bc\x01", &[], |b| {
        NewConnectionId::decode(b).map(drop)
    });
    check("RequestConnectionId", b"\x03", &[], |b| RequestConnectionId::decode(b).map(drop));
}

#[test]
fn hellos_may_end_before_their_extensions() {
    let client = [
        &b"\xfe\xfd"[..],
        &[7; 32],
        b"\x02id",
        b"\x04cook",
        b"\0\x04\xc0\xa8\0\xff",
        b"\x02\x01\0",
        b"\0\x04\0\x17\0\0",
    ]
    .concat();
    let ends = [client.len() - 6];
    check("ClientHello", &client, &ends, |b| ClientHello::decode(b).map(drop));
    let server =
        [&b"\xfe\xfd"[..], &[7; 32], b"\x02id", b"\xc0\xa8", b"\0", b"\0\x04\0\x17\0\0"].concat();
    let ends = [server.len() - 6];
    check("ServerHello", &server, &ends, |b| ServerHello::decode(b).map(drop));
}

#[test]
fn extensions_and_records_of_path_checks() {
    check("max_fragment_length", b"\x01", &[], |b| MaxFragmentLength::decode(b).map(drop));
    check("record_size_limit", b"\0\x40", &[], |b| read_record_size_limit(b).map(drop));
    check("connection_id", b"\x03cid", &[], |b| read_connection_id(b).map(drop));
    for kind in 0..3 {
        let message = [&[kind], &b"8 random"[..]].concat();
        check("path message", &message, &[], |b| return_routability::read(b).map(drop));
    }
}
