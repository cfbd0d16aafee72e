//! The passive end of an SCTP association (RFC 9260, section 5.1), as far as a data channel opens: the
//! answers to INIT and to COOKIE ECHO, and to the request for a channel (RFC 8832).

use super::checksum::crc32c;

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
/// The protocol identifier of messages that open channels.
const CONTROL: u8 = 50;
/// That identifier with the first byte of a request.
const DATA_CHANNEL_OPEN: [u8; 5] = [0, 0, 0, CONTROL, 3];
const DATA_CHANNEL_ACK: u8 = 2;
/// The parameter with the cookie.
const STATE_COOKIE: [u8; 2] = [0, 7];
/// The cookie itself: with one association it says nothing.
const COOKIE: [u8; 8] = *b"one end.";
/// The verification tag of this end.
const TAG: [u8; 4] = [1, 2, 3, 4];
const HEADER: usize = 12;

/// The passive end.
#[derive(Debug, Default)]
pub(super) struct Sctp {
    /// The verification tag of the other end, once its INIT has arrived.
    other: [u8; 4],
    /// Whether the other end has sent back the cookie, so that it has received the answer to its INIT.
    pub(super) established: bool,
}

impl Sctp {
    /// The answer to a packet, if it needs one.
    pub(super) fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (header, chunk) = packet.split_at_checked(HEADER)?;
        let value = chunk.get(4..)?;
        let answer = match chunk[0] {
            INIT => {
                self.other = *value.first_chunk()?;
                let receive_window = 0x0002_0000_u32.to_be_bytes();
                let streams = [0xff, 0xff, 0xff, 0xff];
                let first_number = [0, 0, 0, 1];
                let fields =
                    [&TAG[..], &receive_window, &streams, &first_number, &STATE_COOKIE].concat();
                let cookie = [&[0, 4 + COOKIE.len() as u8][..], &COOKIE].concat();
                [vec![INIT_ACK, 0, 0, 32], fields, cookie].concat()
            }
            COOKIE_ECHO if value.starts_with(&COOKIE) && header[4..8] == TAG => {
                self.established = true;
                vec![COOKIE_ACK, 0, 0, 4]
            }
            DATA if self.established && value.get(8..13) == Some(&DATA_CHANNEL_OPEN) => {
                let number = value.get(..4)?;
                let window_and_no_gaps = [0, 2, 0, 0, 0, 0, 0, 0];
                let sack = [&[SACK, 0, 0, 16][..], number, &window_and_no_gaps].concat();
                // A whole message, the first one of the stream of the request.
                let [stream_high, stream_low] = *value.get(4..6)?.first_chunk()?;
                let fields = [0, 0, 0, 1, stream_high, stream_low, 0, 0, 0, 0, 0, CONTROL];
                let ack = [DATA_CHANNEL_ACK, 0, 0, 0];
                [&sack[..], &[DATA, 3, 0, 17], &fields, &ack].concat()
            }
            _ => return None,
        };
        let ports = [&header[2..4], &header[..2]].concat();
        let mut packet = [&ports[..], &self.other, &[0; 4], &answer].concat();
        let sum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&sum);
        Some(packet)
    }
}
