//! The policies of a server that has no free session slot, as users write them.

use crate::units::Quantity;
use lightseal_dtls::WhenFull;
use std::time::Duration;

/// Reads `refuse`, `evict-oldest` or `evict-idle:TIME`.
pub fn when_full(text: &str) -> Result<WhenFull, String> {
    match text.split_once(':') {
        None if text == "refuse" => Ok(WhenFull::Refuse),
        None if text == "evict-oldest" => Ok(WhenFull::EvictOldest),
        Some(("evict-idle", time)) => {
            let Quantity(least) = time.parse::<Quantity<Duration>>()?;
            Ok(WhenFull::EvictIdle(least))
        }
        _ => Err("expected `refuse`, `evict-oldest` or `evict-idle:TIME`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name() {
        assert_eq!(when_full("refuse"), Ok(WhenFull::Refuse));
        assert_eq!(when_full("evict-oldest"), Ok(WhenFull::EvictOldest));
        let minutes = WhenFull::EvictIdle(Duration::from_secs(300));
        assert_eq!(when_full("evict-idle:5min"), Ok(minutes));
        assert_eq!(when_full("evict-idle:0"), Ok(WhenFull::EvictIdle(Duration::ZERO)));
        for wrong in ["", "evict", "evict-idle", "evict-idle:", "evict-idle:5", "refuse:1s"] {
            assert!(when_full(wrong).is_err(), "{wrong}");
        }
    }
}
