//! The messages of a group: the part of CoAP (RFC 7252) that they need.
//!
//! Their lengths are close to those of the paper on Axiom. By the energies in its Table II, a
//! request has 21 to 25 bytes and a response 27 to 28.

/// Length of a token, in bytes.
const TOKEN_BYTES: usize = 4;

/// The first byte of a message: version 1, non-confirmable, with a token of [`TOKEN_BYTES`].
const FIRST: u8 = 0x54;
const POST: u8 = 0x02;
/// The response code 2.04 (Changed).
const CHANGED: u8 = 0x44;
/// The option number of Uri-Path. It is the option delta of the first segment; the second segment
/// has a delta of 0.
const URI_PATH: u8 = 11;
/// The option Content-Format (12) with an empty value, which stands for text.
const TEXT: u8 = 0xc0;
const PAYLOAD_MARKER: u8 = 0xff;

const PATH: [&str; 2] = ["actuators", "leds"];

/// The payload of responses. It has the same length in all listeners.
const STATE: &[u8] = b"light on, at 40 %";

/// The token, by which responses are matched to their request.
pub type Token = [u8; TOKEN_BYTES];

fn message(code: u8, id: u16, token: Token) -> Vec<u8> {
    let mut message = vec![FIRST, code];
    message.extend(id.to_be_bytes());
    message.extend(token);
    message
}

/// The request `POST /actuators/leds`, in 23 bytes.
pub fn request(id: u16, token: Token) -> Vec<u8> {
    let mut request = message(POST, id, token);
    let mut option = URI_PATH;
    for segment in PATH {
        request.push(option << 4 | segment.len() as u8);
        request.extend(segment.as_bytes());
        option = 0;
    }
    request
}

/// The response to a request, in 27 bytes; `None` if the message is not a request.
pub fn response(request: &[u8], id: u16) -> Option<Vec<u8>> {
    let token = token_of(request, POST)?;
    let mut response = message(CHANGED, id, token);
    response.extend([TEXT, PAYLOAD_MARKER]);
    response.extend(STATE);
    Some(response)
}

/// The token of a response; `None` if the message is not a response.
pub fn token_of_response(response: &[u8]) -> Option<Token> {
    token_of(response, CHANGED)
}

fn token_of(message: &[u8], code: u8) -> Option<Token> {
    let (header, rest) = message.split_first_chunk::<4>()?;
    let is_one = header[0] == FIRST && header[1] == code;
    rest.first_chunk().copied().filter(|_| is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_its_request_s_token() {
        let request = request(7, *b"tokn");
        assert_eq!(request.len(), 23);
        assert_eq!(&request[..9], &[0x54, 2, 0, 7, b't', b'o', b'k', b'n', 0xb9]);
        let response = response(&request, 9).unwrap();
        assert_eq!(response.len(), 27);
        assert_eq!(token_of_response(&response), Some(*b"tokn"));
        assert!(token_of_response(&request).is_none() && super::response(&response, 1).is_none());
        assert!(super::response(&request[..7], 1).is_none());
    }
}
