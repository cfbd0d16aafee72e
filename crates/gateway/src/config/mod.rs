//! The settings of a gateway: plain data that is checked once, where the gateway, its control path
//! or its scheme is made from it.

mod allowed;
mod error;
mod limits;

pub use allowed::Allowed;
pub use error::ConfigError;
pub use limits::{FlowLimits, StationLimits};

use crate::fragments::MAX_FRAME;
use crate::keys::GatewayId;
use crate::peer_set::{PeerIndex, PeerSet};
use crate::tuning::{LEAST_REKEY, SWEEP_INTERVAL};
use core::time::Duration;
use std::collections::BTreeSet;

/// What a gateway does with MKA frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Mka {
    /// They are sent through the tunnel, encrypted.
    #[default]
    Tunnel,
    /// They are sent over the management channel.
    Management,
    /// They are dropped, since keys are static or each LAN agrees on its own keys.
    Drop,
}

/// What a gateway does if another gateway is on its LAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum SecondGateway {
    /// It reports the other gateway and continues.
    #[default]
    Warn,
    /// It also carries nothing while the other gateway is there, if the identity of the other
    /// gateway is the lower one.
    Stop,
}

/// The traffic class of the outer IP header of a MACsec frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OuterClass {
    /// The class selector for the priority of the frame's VLAN tag, which observers of the path can
    /// read.
    #[default]
    FromPriority,
    /// Zero for every frame.
    Zero,
}

/// The settings of a [`Gateway`](crate::gateway::Gateway).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// The identity of this gateway.
    pub id: GatewayId,
    /// The address of this gateway's interface on the LAN: not a group address.
    pub lan_address: [u8; 6],
    /// What the gateway does with MKA frames.
    pub mka: Mka,
    /// Frames that are carried besides MACsec and MKA, encrypted as a whole.
    pub allow: Vec<Allowed>,
    /// What the gateway does if another gateway is on its LAN.
    pub second_gateway: SecondGateway,
    /// Limits on the stations that are learned.
    pub stations: StationLimits,
    /// Most frames a second for unknown stations that are copied to several peers.
    pub floods_a_second: u32,
    /// Most frames that are held until a peer knows their flow.
    pub held_frames: usize,
    /// Most bytes of incomplete frames for each peer, at least [`MAX_FRAME`].
    pub reassembly_bytes: usize,
    /// The traffic class of the outer IP header.
    pub outer_class: OuterClass,
}

impl GatewaySettings {
    /// The defaults: MKA goes through the tunnel, no other frames are carried, and a second gateway
    /// is reported.
    pub fn new(id: GatewayId, lan_address: [u8; 6]) -> Self {
        Self {
            id,
            lan_address,
            mka: Mka::default(),
            allow: Vec::new(),
            second_gateway: SecondGateway::default(),
            stations: StationLimits::default(),
            floods_a_second: 10_000,
            held_frames: 1_024,
            reassembly_bytes: 4 << 20,
            outer_class: OuterClass::default(),
        }
    }

    /// Checks that the settings are valid.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.lan_address[0] & 1 == 1 {
            return Err(ConfigError::LanAddress);
        }
        at_least("reassembly_bytes", self.reassembly_bytes, MAX_FRAME)?;
        self.stations.check()
    }
}

/// Checks the identities of a gateway's peers: each peer has one of its own, and none has that of
/// the gateway, if that is known already.
///
/// # Errors
/// [`ConfigError::Peers`], [`ConfigError::OwnIdentity`] or [`ConfigError::SharedIdentity`].
pub fn check_peers(
    own: Option<GatewayId>,
    peers: impl ExactSizeIterator<Item = GatewayId>,
) -> Result<(), ConfigError> {
    if peers.len() > PeerSet::CAPACITY {
        return Err(ConfigError::Peers(peers.len()));
    }
    let mut known = BTreeSet::new();
    for (peer, id) in (0..=u8::MAX).map(PeerIndex).zip(peers) {
        if own == Some(id) {
            return Err(ConfigError::OwnIdentity(peer));
        }
        if !known.insert(id) {
            return Err(ConfigError::SharedIdentity(peer));
        }
    }
    Ok(())
}

/// Intervals of the control path, and how paths are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// How long the keys of an epoch are used, at least a second.
    pub rekey: Duration,
    /// Interval between keepalives to a peer; 0 sends none.
    pub keepalive: Duration,
    /// Whether the path's MTU is searched for with probes.
    pub probe: bool,
    /// Whether a path whose MTU is not searched for is probed while frames are sent, to find out
    /// whether the peer answers.
    pub check: bool,
    /// Interval between announcements on the LAN, by which other gateways notice this one; 0 sends
    /// none.
    pub announce: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            rekey: Duration::from_secs(3600),
            keepalive: Duration::from_secs(25),
            probe: true,
            check: true,
            announce: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// Checks that the intervals are valid.
    ///
    /// # Errors
    /// [`ConfigError::TooShort`].
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        lasts_at_least("rekey", self.rekey, LEAST_REKEY)
    }
}

fn at_least(setting: &'static str, value: usize, least: usize) -> Result<(), ConfigError> {
    if value < least { Err(ConfigError::TooSmall { setting, least }) } else { Ok(()) }
}

fn at_most(setting: &'static str, value: usize, most: usize) -> Result<(), ConfigError> {
    if value > most { Err(ConfigError::TooLarge { setting, most }) } else { Ok(()) }
}

fn lasts_at_least(
    setting: &'static str,
    value: Duration,
    least: Duration,
) -> Result<(), ConfigError> {
    if value < least { Err(ConfigError::TooShort { setting, least }) } else { Ok(()) }
}

/// Checks the times after which silent entries of a table are removed.
fn check_lifetimes(timeout: Duration, probation: Duration) -> Result<(), ConfigError> {
    // Expired entries are searched for once in this interval.
    lasts_at_least("timeout", timeout, SWEEP_INTERVAL)?;
    lasts_at_least("probation", probation, SWEEP_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_valid_and_one_step_outside_is_refused() {
        let valid = GatewaySettings::new(GatewayId([1; 32]), [2, 0, 0, 0, 0, 1]);
        let with = |change: fn(&mut GatewaySettings)| {
            let mut settings = valid.clone();
            change(&mut settings);
            settings.check()
        };
        assert_eq!(valid.check(), Ok(()));
        assert_eq!(with(|settings| settings.lan_address[0] = 3), Err(ConfigError::LanAddress));
        assert_eq!(with(|settings| settings.reassembly_bytes = MAX_FRAME), Ok(()));
        let small = |setting, least| Err(ConfigError::TooSmall { setting, least });
        assert_eq!(
            with(|settings| settings.reassembly_bytes = MAX_FRAME - 1),
            small("reassembly_bytes", MAX_FRAME)
        );
        assert_eq!(with(|settings| settings.stations.burst = 0), small("burst", 1));
        let short = |setting| Err(ConfigError::TooShort { setting, least: SWEEP_INTERVAL });
        assert_eq!(
            with(|settings| settings.stations.timeout = Duration::from_millis(999)),
            short("timeout")
        );
        let timing = |rekey| Timing { rekey, ..Timing::default() }.validate();
        assert_eq!(timing(LEAST_REKEY), Ok(()));
        assert_eq!(
            timing(Duration::from_millis(999)),
            Err(ConfigError::TooShort { setting: "rekey", least: LEAST_REKEY })
        );
    }

    #[test]
    fn each_peer_has_an_identity_of_its_own() {
        let id = |number: u16| {
            let mut id = [0; 32];
            id[..2].copy_from_slice(&number.to_be_bytes());
            GatewayId(id)
        };
        let check = |own, peers: &[u16]| check_peers(own, peers.iter().map(|peer| id(*peer)));
        assert_eq!(check(Some(id(0)), &[1, 2, 3]), Ok(()));
        assert_eq!(
            check(None, &[1, 2, 1]),
            Err(ConfigError::SharedIdentity(PeerIndex(2))),
            "the second peer with an identity is named"
        );
        assert_eq!(check(Some(id(2)), &[1, 2]), Err(ConfigError::OwnIdentity(PeerIndex(1))));
        let many: Vec<_> = (0..=256).collect();
        assert_eq!(check(None, &many[..256]), Ok(()));
        assert_eq!(check(None, &many), Err(ConfigError::Peers(257)));
    }
}
