//! The messages of a group: CoAP (RFC 7252), as much of it as these are.
//!
//! They are as long as what the paper on Axiom sends seems to be: by the energies in its Table II a
//! request has 21 to 25 bytes and a response 27 to 28.

/// Bytes of a token.
const TOKEN_BYTES: usize = 4;

/// Version 1, non-confirmable, with a token of [`TOKEN_BYTES`].
const FIRST: u8 = 0x54;
const POST: u8 = 0x02;
/// 2.04 Changed.
const CHANGED: u8 = 0x44;
/// Option Uri-Path (11), which the next one is as well.
const URI_PATH: u8 = 11;
/// Option Content-Format (12), empty: text.
const TEXT: u8 = 0xc0;
const PAYLOAD_MARKER: u8 = 0xff;

const PATH: [&str; 2] = ["actuators", "leds"];

/// As long in all listeners.
const STATE: &[u8] = b"light on, at 40 %";

/// What binds responses to their request.
pub type Token = [u8; TOKEN_BYTES];

fn message(code: u8, id: u16, token: Token) -> Vec<u8> {
    let mut message = vec![FIRST, code];
    message.extend(id.to_be_bytes());
    message.extend(token);
    message
}

/// `POST /actuators/leds`, 23 bytes.
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

/// The answer to a request, 27 bytes; none to what is no request.
pub fn response(request: &[u8], id: u16) -> Option<Vec<u8>> {
    let token = token_of(request, POST)?;
    let mut response = message(CHANGED, id, token);
    response.extend([TEXT, PAYLOAD_MARKER]);
    response.extend(STATE);
    Some(response)
}

/// The token of a response.
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
