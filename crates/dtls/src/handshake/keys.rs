//! What the states of a DTLS 1.3 handshake hand on from the ServerHello to the end.

use crate::crypto::{EarlySecret, MasterSecret, SharedSecret, TrafficSecret, Transcript};
use alloc::boxed::Box;

/// The transcript and the secrets of a handshake. States hand on its box, and never the secrets, so
/// that no state has them on the stack.
#[derive(Debug)]
pub(crate) struct HandshakeKeys {
    pub(crate) transcript: Box<Transcript>,
    /// The client's secret for epoch 2.
    pub(crate) client: TrafficSecret,
    /// The server's secret for epoch 2.
    pub(crate) server: TrafficSecret,
    pub(crate) master: MasterSecret,
}

impl HandshakeKeys {
    /// The secrets after the ServerHello, with which `transcript` ends. `shared` is `None` if the
    /// pre-shared key is used alone.
    #[inline(never)]
    pub(crate) fn new(
        early: EarlySecret,
        shared: Option<&SharedSecret>,
        transcript: Box<Transcript>,
    ) -> Box<Self> {
        let hash = transcript.hash();
        let handshake = early.into_handshake(shared);
        let client = handshake.client_traffic(&hash);
        let server = handshake.server_traffic(&hash);
        Box::new(Self { transcript, client, server, master: handshake.into_master() })
    }
}
