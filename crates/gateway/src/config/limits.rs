//! Limits on the tables of a gateway.

use super::{ConfigError, at_least, at_most, check_lifetimes};
use crate::codepoints::FLOW_NUMBERS;
use core::time::Duration;

/// Limits on the stations that are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StationLimits {
    /// Most stations in all.
    pub stations: usize,
    /// Most stations on the LAN, and behind each peer.
    pub stations_a_port: usize,
    /// Most new stations a second on the LAN, and behind each peer.
    pub new_a_second: u32,
    /// Most new stations in a burst.
    pub burst: u32,
    /// How long a station may be silent before it is removed.
    pub timeout: Duration,
    /// How long a station may be silent before it is removed, while no frame was sent to it.
    pub probation: Duration,
}

impl Default for StationLimits {
    fn default() -> Self {
        Self {
            stations: 16_384,
            stations_a_port: 8_192,
            new_a_second: 200,
            burst: 1_000,
            timeout: Duration::from_secs(300),
            probation: Duration::from_secs(15),
        }
    }
}

impl StationLimits {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least("stations", self.stations, 1)?;
        at_least("stations_a_port", self.stations_a_port, 1)?;
        at_least("burst", self.burst as usize, 1)?;
        check_lifetimes(self.timeout, self.probation)
    }
}

/// How many flows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowLimits {
    /// Most flows that are sent in all. A flow to several peers counts once for each peer.
    pub flows: usize,
    /// Most flows that are sent to one peer.
    pub flows_a_peer: usize,
    /// Most flows that are sent with one source address.
    pub flows_a_source: usize,
    /// Most flows that are sent with one SCI.
    pub flows_an_sci: usize,
    /// Most new flows a second, on average.
    pub new_a_second: u32,
    /// Most new flows in a burst.
    pub burst: u32,
    /// How long a flow may be idle before it is removed.
    pub timeout: Duration,
    /// How long a flow may be idle before it is removed, while its destination has sent nothing
    /// back.
    pub probation: Duration,
    /// Most flows that all peers together may register here.
    pub received: usize,
    /// Most flows that one peer may register here.
    pub received_a_peer: usize,
    /// Most identifiers in the table of expected identifiers, over all flows that are received.
    /// Each takes up to some 50 bytes, since the table doubles when it is nearly full.
    pub identifiers: usize,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self {
            flows: 4096,
            flows_a_peer: 2048,
            flows_a_source: 256,
            flows_an_sci: 256,
            new_a_second: 200,
            burst: 1000,
            timeout: Duration::from_secs(300),
            probation: Duration::from_secs(15),
            received: 4096,
            received_a_peer: 2048,
            identifiers: 1 << 20,
        }
    }
}

/// Most flows: far fewer than flow numbers, so that a number for a new flow is found at once.
const MOST_FLOWS: usize = FLOW_NUMBERS as usize / 2;

impl FlowLimits {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        at_most("flows", self.flows, MOST_FLOWS)?;
        at_most("received", self.received, MOST_FLOWS)?;
        check_lifetimes(self.timeout, self.probation)
    }

    /// Checks that a flow can have identifiers for `ahead` packet numbers ahead of the highest one
    /// and for `behind` packet numbers behind it.
    pub(crate) fn check_window(&self, ahead: u64, behind: u64) -> Result<(), ConfigError> {
        let fits = |count| usize::try_from(count).unwrap_or(usize::MAX);
        at_least("ahead", fits(ahead), 1)?;
        // Packet numbers are recovered from their low 32 bits.
        let most = self.identifiers.min(1 << 30);
        at_most("ahead", fits(ahead), most)?;
        at_most("behind", fits(behind), most - fits(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_the_table_of_identifiers_and_flows_have_numbers() {
        let limits = FlowLimits { identifiers: 100, ..FlowLimits::default() };
        assert_eq!(limits.check(), Ok(()));
        assert_eq!(limits.check_window(60, 40), Ok(()));
        assert_eq!(limits.check_window(100, 0), Ok(()));
        let large = |setting, most| Err(ConfigError::TooLarge { setting, most });
        assert_eq!(limits.check_window(60, 41), large("behind", 40));
        assert_eq!(limits.check_window(u64::MAX, 0), large("ahead", 100));
        assert_eq!(limits.check_window(60, u64::MAX), large("behind", 40));
        assert_eq!(
            limits.check_window(0, 10),
            Err(ConfigError::TooSmall { setting: "ahead", least: 1 })
        );
        let flows = |flows| FlowLimits { flows, ..limits }.check();
        assert_eq!(flows(MOST_FLOWS), Ok(()));
        assert_eq!(flows(MOST_FLOWS + 1), large("flows", MOST_FLOWS));
    }
}
