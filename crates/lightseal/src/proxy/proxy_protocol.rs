//! The PROXY protocol, version 2, towards the service: each datagram begins with a header that says
//! who sent the message (HAProxy, `doc/proxy-protocol.txt`, sections 2.2 and 2.2.6).
//!
//! ```text
//! | signature (12) | 0x21 | 0x12 or 0x22 | length (2) | client, proxy: addresses and ports | TLVs |
//! ```
//!
//! The only TLV is PP2_TYPE_SSL, with the DTLS version and the client's identity in the place of a
//! common name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command PROXY.
const VERSION_AND_COMMAND: u8 = 0x21;
/// Datagrams over IPv4, and over IPv6.
const DATAGRAM_V4: u8 = 0x12;
const DATAGRAM_V6: u8 = 0x22;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_COMMON_NAME: u8 = 0x22;
/// The client speaks TLS (here: DTLS).
const CLIENT_SSL: u8 = 0x01;

/// The client of an association, for the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFacts<'a> {
    /// The address of the client, and the one at which it reaches the proxy.
    pub(crate) client: SocketAddr,
    pub(crate) proxy: SocketAddr,
    /// The identity as in access lists; `None` if the client has proved none.
    pub(crate) identity: Option<&'a str>,
    /// The version of DTLS.
    pub(crate) version: &'a str,
}

/// The header.
pub(crate) fn header(facts: &ClientFacts<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    let (client, proxy) = (facts.client, facts.proxy);
    let family = match (client.ip().to_canonical(), proxy.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(proxy)) => {
            body.extend(client.octets());
            body.extend(proxy.octets());
            DATAGRAM_V4
        }
        (client, proxy) => {
            body.extend(mapped(client).octets());
            body.extend(mapped(proxy).octets());
            DATAGRAM_V6
        }
    };
    body.extend(client.port().to_be_bytes());
    body.extend(proxy.port().to_be_bytes());
    // 0 says that the client was verified.
    let verify = u32::from(facts.identity.is_none());
    let mut ssl = vec![CLIENT_SSL];
    ssl.extend(verify.to_be_bytes());
    tlv(&mut ssl, SSL_VERSION, facts.version.as_bytes());
    if let Some(identity) = facts.identity {
        tlv(&mut ssl, SSL_COMMON_NAME, identity.as_bytes());
    }
    tlv(&mut body, SSL, &ssl);
    let mut header = SIGNATURE.to_vec();
    header.extend([VERSION_AND_COMMAND, family]);
    header.extend(length(&body));
    header.extend(body);
    header
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn tlv(to: &mut Vec<u8>, kind: u8, value: &[u8]) {
    // Identities are shorter than that: a DTLS extension has at most 65,535 bytes in all.
    let value = &value[..value.len().min(60_000)];
    to.push(kind);
    to.extend(length(value));
    to.extend(value);
}

fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand from the specification.
    #[test]
    fn a_header_is_as_the_specification_says() {
        let facts = ClientFacts {
            client: "192.0.2.9:40000".parse().unwrap(),
            proxy: "[::ffff:192.0.2.1]:5684".parse().unwrap(),
            identity: Some("psk:a"),
            version: "DTLS 1.3",
        };
        let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x12".to_vec();
        expected.extend([0, 12 + 3 + 5 + 3 + 8 + 3 + 5]);
        expected.extend([192, 0, 2, 9, 192, 0, 2, 1, 0x9c, 0x40, 0x16, 0x34]);
        expected.extend([0x20, 0, 5 + 3 + 8 + 3 + 5, 1, 0, 0, 0, 0]);
        expected.extend(b"\x21\0\x08DTLS 1.3\x22\0\x05psk:a");
        assert_eq!(header(&facts), expected);
    }

    #[test]
    fn ipv6_and_mixed_addresses_take_the_longer_form_and_nobody_is_not_verified() {
        let facts = |client: &str| ClientFacts {
            client: client.parse().unwrap(),
            proxy: "[2001:db8::1]:5684".parse().unwrap(),
            identity: None,
            version: "DTLS 1.2",
        };
        for (client, octets) in [
            ("[2001:db8::9]:1", "2001:db8::9".parse::<Ipv6Addr>().unwrap().octets()),
            ("192.0.2.9:1", "::ffff:192.0.2.9".parse::<Ipv6Addr>().unwrap().octets()),
        ] {
            let header = header(&facts(client));
            assert_eq!((header[13], &header[16..32]), (DATAGRAM_V6, &octets[..]));
            assert_eq!(header[52..60], [SSL, 0, 16, 1, 0, 0, 0, 1]);
            assert_eq!(usize::from(header[15]), header.len() - 16);
        }
    }
}
