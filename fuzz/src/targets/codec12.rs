//! Messages of DTLS 1.2, of connection IDs and of path checks. A message that can be decoded must be
//! encoded to the bytes from which it was decoded.

use super::codec::written;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, Writer};
use lightseal_dtls::codepoints::DTLS_1_2;
use lightseal_dtls::messages::connection_id::write_new_connection_id;
use lightseal_dtls::messages::extensions::{
    MaxFragmentLength, cipher_suites, read_connection_id, read_record_size_limit,
    write_connection_id,
};
use lightseal_dtls::messages::hello::{write_client_hello, write_server_hello};
use lightseal_dtls::messages::key_exchange::{
    read_ecdhe_psk_client_key_exchange, read_psk_client_key_exchange, read_psk_hint,
    write_ecdhe_psk_client_key_exchange, write_psk_client_key_exchange,
};
use lightseal_dtls::messages::{
    ClientHello, EcdhePskServerParams, HelloVerifyRequest, NewConnectionId, NewSessionTicket12,
    RequestConnectionId, ServerHello, extensions::Extensions, return_routability,
};

/// The bytes that `write` appends.
fn bytes_of(write: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>) -> Vec<u8> {
    let mut buf = vec![0; 1 << 17];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("the buffer is larger than any input");
    w.finish().to_vec()
}

fn write_block(extensions: Extensions<'_>, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    extensions.iter().try_for_each(|(kind, content)| {
        w.u16(kind.0)?;
        w.vec16(|w| w.bytes(content))
    })
}

/// Whether `written` encodes the hello that was decoded from `input`: the bytes are equal, or `input`
/// has no extension block and `written` ends with an empty one.
fn same_hello(written: &[u8], input: &[u8]) -> bool {
    written == input || written == [input, &[0, 0]].concat()
}

fn hellos(input: &[u8]) {
    if let Ok(hello) = ClientHello::decode(input)
        && hello.legacy_version == DTLS_1_2
        && hello.compression_methods == [0]
        && let Ok(suites) = cipher_suites(hello.cipher_suites)
    {
        let (id, cookie) = (hello.legacy_session_id, hello.legacy_cookie);
        assert!(id.len() <= 32);
        let again = bytes_of(|w| {
            let block = |w: &mut Writer<'_>| write_block(hello.extensions, w);
            let suites = |w: &mut Writer<'_>| suites.clone().try_for_each(|suite| w.u16(suite));
            write_client_hello(w, hello.random, id, cookie, suites, block)
        });
        assert!(same_hello(&again, input));
    }
    if let Ok(hello) = ServerHello::decode(input)
        && hello.legacy_version == DTLS_1_2
    {
        assert!(hello.session_id.len() <= 32);
        let again = bytes_of(|w| {
            let block = |w: &mut Writer<'_>| write_block(hello.extensions, w);
            write_server_hello(w, hello.random, hello.session_id, hello.cipher_suite, block)
        });
        assert!(same_hello(&again, input));
    }
}

/// Gives the input to the parser of every message that only a peer with DTLS 1.2 or with connection
/// IDs sends.
pub(super) fn messages(input: &[u8]) {
    hellos(input);
    if let Ok(request) = HelloVerifyRequest::decode(input) {
        // The first two bytes are the version, which the decoded message does not keep.
        assert_eq!(written(&request)[2..], input[2..]);
    }
    if let Ok(hint) = read_psk_hint(input) {
        assert_eq!(bytes_of(|w| write_psk_client_key_exchange(hint, w)), input);
        assert_eq!(read_psk_client_key_exchange(input), Ok(hint));
        assert!(
            read_ecdhe_psk_client_key_exchange(input).is_err(),
            "a message has only one of the two forms"
        );
    }
    if let Ok((identity, point)) = read_ecdhe_psk_client_key_exchange(input) {
        assert!(!point.is_empty());
        assert_eq!(bytes_of(|w| write_ecdhe_psk_client_key_exchange(identity, point, w)), input);
    }
    if let Ok(params) = EcdhePskServerParams::decode(input) {
        assert!(!params.point.is_empty());
        assert_eq!(written(&params), input);
    }
    if let Ok(ticket) = NewSessionTicket12::decode(input) {
        assert_eq!(written(&ticket), input);
    }
    if let Ok(message) = NewConnectionId::decode(input) {
        let again = bytes_of(|w| write_new_connection_id(message.iter(), message.usage, w));
        assert_eq!(again, input);
    }
    if let Ok(request) = RequestConnectionId::decode(input) {
        assert_eq!(written(&request), input);
    }
    if let Ok(Some(message)) = return_routability::read(input) {
        assert_eq!(written(&message), input);
    }
    if let Ok(limit) = MaxFragmentLength::decode(input) {
        assert_eq!(MaxFragmentLength::of_bytes(limit.bytes()), Some(limit));
    }
    if let Ok(limit) = read_record_size_limit(input) {
        assert_eq!(limit.to_be_bytes(), input);
    }
    if let Ok(cid) = read_connection_id(input) {
        assert_eq!(bytes_of(|w| write_connection_id(cid, w)), input);
    }
}

/// A valid message of each kind, as the RFCs define it: the inputs from which others are derived.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let random = [7; 32];
    let client = [&b"\xfe\xfd"[..], &random, b"\x02id\x04cook\0\x04\xc0\xa8\0\xff\x01\0"].concat();
    let server = [&b"\xfe\xfd"[..], &random, b"\x02id\xc0\xa8\0"].concat();
    let block = b"\0\x14\0\x17\0\0\0\x36\0\x03\x02id\xff\x01\0\x01\0\0\x16\0\0";
    let with_block = [&client, &server].map(|hello| [hello, &block[..]].concat());
    let mut seeds = vec![client, server];
    seeds.extend(with_block);
    let messages: [&[u8]; 13] = [
        b"\xfe\xff\x04cook",
        b"\0\x04hint",
        b"\0\x02id\x03\0\x1d\x03key",
        b"\0\x02me\x03key",
        b"\0\0\x0e\x10\0\x06ticket",
        b"\0\x05\x01a\x02bc\x01",
        b"\x03",
        b"\x008 random",
        b"\x018 random",
        b"\x028 random",
        b"\x01",
        b"\0\x40",
        b"\x03cid",
    ];
    seeds.extend(messages.map(<[u8]>::to_vec));
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_hellos_are_understood() {
        let seeds = seeds();
        let clients = seeds.iter().filter(|seed| ClientHello::decode(seed).is_ok());
        let servers = seeds.iter().filter(|seed| ServerHello::decode(seed).is_ok());
        assert_eq!((clients.count(), servers.count()), (2, 2), "with extensions and without");
        let longest = seeds.iter().filter_map(|seed| ServerHello::decode(seed).ok());
        assert_eq!(longest.map(|hello| hello.extensions.iter().count()).max(), Some(4));
    }
}
