//! The states of the management channels, as they are reported.

use std::net::IpAddr;
use std::time::Instant;

/// The state of the management channels, by peer.
pub(super) struct Channels(pub(super) Vec<ChannelState>);

/// The state of the management channel to one peer.
#[derive(Clone, Debug)]
pub(super) struct ChannelState {
    pub(super) up: bool,
    /// When the channel came up or went down last.
    pub(super) since: Instant,
    /// Why the channel is down, if it has been tried.
    pub(super) why_down: Option<String>,
    /// The other end of the last connection.
    pub(super) remote: Option<IpAddr>,
}
