//! To which peers a frame of the LAN goes, and how.

use crate::peer_set::PeerSet;
use lightseal_macsec::Header;

/// How a frame of the LAN is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The peers that the frame is for.
    pub peers: PeerSet,
    /// Length of the frame in bytes, without padding.
    pub len: usize,
    /// The traffic class of the outer IP header: DSCP and ECN.
    pub class: u8,
    /// The header of a MACsec frame; `None` for other frames.
    pub header: Option<Header>,
}
