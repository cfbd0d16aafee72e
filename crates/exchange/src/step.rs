//! What an engine wants, without a borrow of the buffer.

use crate::Request;
use core::net::SocketAddr;
use lightseal_core::{Engine, Instant, Output};

/// [`Output`] whose datagram lies at the front of the buffer that was lent. Unlike an `Output` it may
/// be looked at before the engine is polled again.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The first `len` bytes of the buffer are to be sent.
    Datagram {
        /// The peer's address.
        to: SocketAddr,
        /// The length of the datagram in bytes.
        len: usize,
    },
    /// The driver should do something.
    Request(Request),
    /// The buffer must have this many bytes.
    BufferTooSmall {
        /// The length in bytes that suffices.
        needed: usize,
    },
    /// There is nothing to do before this time.
    WakeAt(Instant),
    /// There is nothing to do until a datagram arrives.
    Idle,
}

impl Step {
    /// Polls an engine.
    pub fn of<E>(engine: &mut E, buf: &mut [u8]) -> Self
    where
        E: for<'a> Engine<Event<'a> = Request> + 'static,
    {
        match engine.poll_output(buf) {
            Output::Datagram { to, payload } => Self::Datagram { to, len: payload.len() },
            Output::Event(request) => Self::Request(request),
            Output::BufferTooSmall { needed } => Self::BufferTooSmall { needed },
            Output::WakeAt(at) => Self::WakeAt(at),
            Output::Idle => Self::Idle,
        }
    }

    /// The step as an engine's output; a datagram lies at the front of `buf`.
    pub fn output(self, buf: &[u8]) -> Output<'_, Request> {
        match self {
            Self::Datagram { to, len } => {
                Output::Datagram { to, payload: buf.get(..len).unwrap_or_default() }
            }
            Self::Request(request) => Output::Event(request),
            Self::BufferTooSmall { needed } => Output::BufferTooSmall { needed },
            Self::WakeAt(at) => Output::WakeAt(at),
            Self::Idle => Output::Idle,
        }
    }
}
