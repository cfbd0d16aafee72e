//! The frames on a connection, inside of TLS.
//!
//! ```text
//! frame:   length (4) ‖ type (1) ‖ content (length - 1)      keepalive: length 0, nothing else
//! hello:   1 ‖ instance (16) ‖ patience in ms (4) ‖ renewal (1)
//! use:     2 ‖ number (8) ‖ renewal (1)
//! refuse:  3
//! end:     4 ‖ moved (1)
//! message: 5 ‖ message of the gateway's engine (0 to 65 536)
//! ```

use super::{Cause, MAX_MESSAGE, tls};
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// The longest frame in bytes, without its length field.
const MAX_FRAME: usize = 1 + MAX_MESSAGE;

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// Shows that the sender is alive.
    Keepalive,
    /// The first frame in both directions: describes the sender.
    Hello(Hello),
    /// The decision to use this connection from now on.
    Use {
        /// Increases with every such frame from the same instance.
        number: u64,
        /// Whether this connection replaces one that works and continues its sequence of messages.
        renewal: bool,
    },
    /// The decision not to use this connection.
    Refuse,
    /// The last frame on this connection.
    End {
        /// Whether the sender continues on another connection.
        moved: bool,
    },
    /// A message for the engine. It may contain secrets.
    Message(Zeroizing<Vec<u8>>),
}

/// Describes the sender of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Random identifier of this run of the gateway.
    pub(super) instance: [u8; 16],
    /// How long the sender tolerates silence before it considers the connection dead.
    pub(super) patience: Duration,
    /// Whether the gateway that dialled wants to replace a connection that works.
    pub(super) renewal: bool,
}

impl fmt::Debug for Frame {
    /// Omits what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keepalive => f.write_str("Keepalive"),
            Self::Hello(hello) => f.debug_tuple("Hello").field(hello).finish(),
            Self::Use { number, renewal } => {
                f.debug_struct("Use").field("number", number).field("renewal", renewal).finish()
            }
            Self::Refuse => f.write_str("Refuse"),
            Self::End { moved } => f.debug_struct("End").field("moved", moved).finish(),
            Self::Message(bytes) => write!(f, "Message({} bytes)", bytes.len()),
        }
    }
}

impl Frame {
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let content = match self {
            Self::Message(message) => message.len(),
            _ => 32,
        };
        // The vector never grows, so no copy of a secret stays behind in freed memory.
        let mut out = Zeroizing::new(Vec::with_capacity(5 + content));
        out.extend([0; 4]);
        match self {
            Self::Keepalive => {}
            Self::Hello(hello) => {
                out.push(1);
                out.extend(hello.instance);
                let patience = u32::try_from(hello.patience.as_millis()).unwrap_or(u32::MAX);
                out.extend(patience.to_be_bytes());
                out.push(hello.renewal.into());
            }
            Self::Use { number, renewal } => {
                out.push(2);
                out.extend(number.to_be_bytes());
                out.push((*renewal).into());
            }
            Self::Refuse => out.push(3),
            Self::End { moved } => out.extend([4, (*moved).into()]),
            Self::Message(message) => {
                out.push(5);
                out.extend_from_slice(message);
            }
        }
        let len = u32::try_from(out.len() - 4).expect("messages are short");
        out[..4].copy_from_slice(&len.to_be_bytes());
        out
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let flag = |byte: u8| match byte {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let Some((kind, content)) = body.split_first() else {
            return Some(Self::Keepalive);
        };
        match (kind, content) {
            (1, content) => {
                let (instance, rest) = content.split_first_chunk()?;
                let (patience, rest) = rest.split_first_chunk()?;
                let [renewal] = *rest else { return None };
                let patience = Duration::from_millis(u32::from_be_bytes(*patience).into());
                Some(Self::Hello(Hello { instance: *instance, patience, renewal: flag(renewal)? }))
            }
            (2, content) => {
                let (number, rest) = content.split_first_chunk()?;
                let [renewal] = *rest else { return None };
                Some(Self::Use { number: u64::from_be_bytes(*number), renewal: flag(renewal)? })
            }
            (3, []) => Some(Self::Refuse),
            (4, [moved]) => Some(Self::End { moved: flag(*moved)? }),
            (5, message) => Some(Self::Message(message.to_vec().into())),
            _ => None,
        }
    }
}

/// Writes a frame and flushes the stream.
pub(super) async fn write(out: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> Result<(), Cause> {
    let lost = |error| Cause::Lost(tls::describe_error(&error));
    out.write_all(&frame.encode()).await.map_err(lost)?;
    out.flush().await.map_err(lost)
}

/// Reads a frame. Fails if the peer is silent for longer than `patience` at any time.
pub(super) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<Frame, Cause> {
    let mut head = [0; 4];
    fill(from, &mut head, patience).await?;
    let len = u32::from_be_bytes(head) as usize;
    if len > MAX_FRAME {
        return Err(Cause::Protocol("a message that is too long"));
    }
    let mut body = Zeroizing::new(vec![0; len]);
    fill(from, &mut body, patience).await?;
    Frame::decode(&body).ok_or(Cause::Protocol("an invalid message"))
}

async fn fill(
    from: &mut (impl AsyncRead + Unpin),
    buf: &mut [u8],
    patience: Duration,
) -> Result<(), Cause> {
    let mut at = 0;
    while at < buf.len() {
        match timeout(patience, from.read(&mut buf[at..])).await {
            Err(_) => return Err(Cause::Silent),
            Ok(Ok(0)) => {
                return Err(Cause::Lost("the peer closed the connection without notice".into()));
            }
            Ok(Ok(len)) => at += len,
            Ok(Err(error)) => return Err(Cause::Lost(tls::describe_error(&error))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn all() -> Vec<Frame> {
        let hello =
            Hello { instance: [7; 16], patience: Duration::from_millis(10_000), renewal: true };
        vec![
            Frame::Keepalive,
            Frame::Hello(hello),
            Frame::Use { number: 1 << 40, renewal: false },
            Frame::Refuse,
            Frame::End { moved: true },
            Frame::Message(Vec::new().into()),
            Frame::Message(vec![3; MAX_MESSAGE].into()),
        ]
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_read_as_they_were_written_and_cut_nowhere() {
        let mut bytes = Vec::new();
        for frame in all() {
            write(&mut bytes, &frame).await.unwrap();
        }
        let mut from = &bytes[..];
        for frame in all() {
            assert_eq!(read(&mut from, PATIENCE).await.unwrap(), frame);
        }
        assert!(matches!(read(&mut from, PATIENCE).await, Err(Cause::Lost(_))));
        for frame in all() {
            let whole = frame.encode();
            for len in 0..whole.len().min(100) {
                assert!(matches!(read(&mut &whole[..len], PATIENCE).await, Err(Cause::Lost(_))));
            }
            // A frame that was cut and has a matching length: it is another frame or invalid, and
            // decoding never panics.
            for len in 1..whole.len().min(40) - 4 {
                let cut = Frame::decode(&whole[4..4 + len]);
                assert!(cut.is_none() || matches!(cut, Some(Frame::Message(_))), "{cut:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_length_out_of_range_costs_no_memory() {
        let inside = (MAX_FRAME as u32).to_be_bytes();
        assert!(matches!(read(&mut &inside[..], PATIENCE).await, Err(Cause::Lost(_))));
        let outside = (MAX_FRAME as u32 + 1).to_be_bytes();
        assert!(matches!(read(&mut &outside[..], PATIENCE).await, Err(Cause::Protocol(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_frame_but_slowness_does_not() {
        let (mut one, mut other) = tokio::io::duplex(64);
        let slow = async {
            for &byte in Frame::Message(b"slow".to_vec().into()).encode().iter() {
                tokio::time::sleep(PATIENCE * 9 / 10).await;
                one.write_all(&[byte]).await.unwrap();
            }
            one
        };
        let (frame, one) = tokio::join!(read(&mut other, PATIENCE), slow);
        assert_eq!(frame.unwrap(), Frame::Message(b"slow".to_vec().into()));
        assert_eq!(read(&mut other, PATIENCE).await, Err(Cause::Silent));
        drop(one);
    }
}
