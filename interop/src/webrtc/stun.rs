//! The answers of an ICE-lite agent to connectivity checks (RFC 8445, section 2.5): Binding responses
//! of STUN (RFC 8489) with short-term credentials.

use super::checksum::crc32;
use aws_lc_rs::hmac;
use std::net::SocketAddr;

const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const COOKIE: u32 = 0x2112_a442;
const MESSAGE_INTEGRITY: u16 = 0x0008;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const FINGERPRINT: u16 = 0x8028;
const HEADER: usize = 20;

/// Whether a datagram is one of STUN and not of DTLS (RFC 7983, section 7).
pub(super) fn is_stun(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| *first < 4)
}

/// The answer to a Binding request from the IPv4 address `from` that was made with `password`; `None` for
/// everything else.
pub(super) fn answer(request: &[u8], from: SocketAddr, password: &str) -> Option<Vec<u8>> {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
    let header = request.get(..HEADER)?;
    let number = |at: usize| Some(u16::from_be_bytes([*header.get(at)?, *header.get(at + 1)?]));
    if number(0)? != BINDING_REQUEST || header[4..8] != COOKIE.to_be_bytes() {
        return None;
    }
    // The tag is over what precedes it, with the length of a message that ends with the tag.
    let mut at = HEADER;
    loop {
        let [t1, t2, l1, l2] = *request.get(at..at + 4)?.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l1, l2]));
        if u16::from_be_bytes([t1, t2]) == MESSAGE_INTEGRITY {
            let mut covered = request[..at].to_vec();
            set_length(&mut covered, 24);
            hmac::verify(&key, &covered, request.get(at + 4..at + 4 + length)?).ok()?;
            break;
        }
        at += 4 + length.next_multiple_of(4);
    }
    let SocketAddr::V4(from) = from else { return None };
    let mut answer = [&BINDING_SUCCESS.to_be_bytes()[..], &[0, 0], &header[4..]].concat();
    let port = from.port() ^ (COOKIE >> 16) as u16;
    let address = u32::from(*from.ip()) ^ COOKIE;
    attribute(
        &mut answer,
        XOR_MAPPED_ADDRESS,
        &[&[0, 1], &port.to_be_bytes()[..], &address.to_be_bytes()].concat(),
    );
    set_length(&mut answer, 24);
    let tag = hmac::sign(&key, &answer);
    attribute(&mut answer, MESSAGE_INTEGRITY, tag.as_ref());
    set_length(&mut answer, 8);
    let sum = crc32(&answer) ^ 0x5354_554e;
    attribute(&mut answer, FINGERPRINT, &sum.to_be_bytes());
    Some(answer)
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&(value.len() as u16).to_be_bytes());
    message.extend_from_slice(value);
}

/// Sets the length field for a message to which `more` bytes will be appended.
fn set_length(message: &mut [u8], more: usize) {
    let length = (message.len() - HEADER + more) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
    }

    /// The request of RFC 5769, section 2.1, and its answer in section 2.2 without the optional name of
    /// the software.
    #[test]
    fn the_request_of_rfc_5769_is_answered() {
        let request = from_hex(
            "000100582112a442b7e7a701bc34d686fa87dfae802200105354554e207465737420636c69656e74\
             002400046e0001ff80290008932ff9b151263b36000600096576746a3a68367659202020\
             000800149aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a280280004e57a3bcf",
        );
        let from = SocketAddr::from(([192, 0, 2, 1], 32853));
        let answer = answer(&request, from, "VOkJxbRl1RmTxUk/WvJxBt").expect("its tag is right");
        let header = from_hex("0101002c2112a442b7e7a701bc34d686fa87dfae");
        let address = from_hex("002000080001a147e112a643");
        assert_eq!(answer[..32], [header, address].concat());
        assert_eq!(answer.len(), HEADER + 0x2c);
        assert!(super::answer(&request, from, "another password").is_none());
        for cut in 0..request.len() - 8 {
            assert!(super::answer(&request[..cut], from, "VOkJxbRl1RmTxUk/WvJxBt").is_none());
        }
    }
}
