//! Other gateways on the same LAN: each gateway announces itself, and one of two may yield.

use crate::codepoints::ANNOUNCEMENT;
use crate::config::{GatewaySettings, SecondGateway};
use crate::keys::GatewayId;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use lightseal_core::Instant;

/// How long an announcement is valid: four in a row may be lost.
const ANNOUNCEMENT_LIFETIME: Duration = Duration::from_secs(5);
/// Shortest interval between two notices of another gateway.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// The destination of announcements: a locally administered group address, which bridges forward.
const ANNOUNCEMENT_GROUP: [u8; 6] = [0x03, 0x4c, 0x53, 0x47, 0x57, 0x01];
const ANNOUNCEMENT_MAGIC: &[u8; 8] = b"lsgw\0\0\0\x01";

/// Makes the announcement by which other gateways on the LAN notice this one.
pub(crate) fn announcement(settings: &GatewaySettings) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&ANNOUNCEMENT_GROUP);
    frame[6..12].copy_from_slice(&settings.lan_address);
    frame[12..14].copy_from_slice(&ANNOUNCEMENT.to_be_bytes());
    frame[14..22].copy_from_slice(ANNOUNCEMENT_MAGIC);
    frame[22..54].copy_from_slice(&settings.id.0);
    frame
}

/// What is known about other gateways on the LAN.
#[derive(Debug, Default)]
pub(crate) struct OtherGateway {
    /// Until when another gateway serves this LAN, in microseconds.
    yields_until: AtomicU64,
    /// Until when no further notice of another gateway is given, in microseconds.
    quiet_until: AtomicU64,
}

impl OtherGateway {
    /// Handles an announcement. Returns the identity of its gateway if the control path is to be
    /// notified.
    pub(crate) fn handle_announcement(
        &self,
        now: Instant,
        frame: &[u8],
        settings: &GatewaySettings,
    ) -> Option<GatewayId> {
        let magic = frame.get(14..22) == Some(&ANNOUNCEMENT_MAGIC[..]);
        let (true, Some(Ok(id))) = (magic, frame.get(22..54).map(TryInto::try_into)) else {
            return None;
        };
        let id = GatewayId(id);
        if settings.second_gateway == SecondGateway::Stop && id < settings.id {
            let until = (now + ANNOUNCEMENT_LIFETIME).as_micros();
            self.yields_until.store(until, Ordering::Relaxed);
        }
        (id != settings.id && self.may_notify(now)).then_some(id)
    }

    /// Whether a notice may be given again. The rate is limited, since any device can send
    /// announcements.
    fn may_notify(&self, now: Instant) -> bool {
        let quiet_until = self.quiet_until.load(Ordering::Relaxed);
        let next = (now + NOTICE_INTERVAL).as_micros();
        let order = Ordering::Relaxed;
        now.as_micros() >= quiet_until
            && self.quiet_until.compare_exchange(quiet_until, next, order, order).is_ok()
    }

    /// Whether another gateway serves this LAN.
    pub(crate) fn is_yielded_to(&self, now: Instant) -> bool {
        now.as_micros() < self.yields_until.load(Ordering::Relaxed)
    }
}
