//! The flag `--aggregate`: which schemes of shared tags to use, and whether
//! this end changes them.

use crate::failure::Failure;
use lightseal_dtls::{Adapt, AggregationPolicy, Delivery, Family, Scheme, Settings};
use std::str::FromStr;

/// One value of the flag `--aggregate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    /// A scheme to accept, where plain tags are one as well.
    Scheme(Scheme),
    /// This end chooses the scheme of what it receives: within the given family, or within the
    /// family that suits `--deliver`.
    Auto(Option<Family>),
}

impl FromStr for Aggregate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("auto") {
            Some("") => Ok(Self::Auto(None)),
            Some(":agg") => Ok(Self::Auto(Some(Family::Agg))),
            Some(":r2d2") => Ok(Self::Auto(Some(Family::R2d2))),
            Some(_) => Err("expected `auto`, `auto:agg` or `auto:r2d2`".into()),
            None => text.parse().map(Self::Scheme).map_err(|error| format!("{error}")),
        }
    }
}

/// Applies all values of the flag to the settings.
///
/// # Errors
///
/// If `auto` stands beside another value.
pub(crate) fn apply(values: &[Aggregate], settings: &mut Settings) -> Result<(), Failure> {
    if let [Aggregate::Auto(family)] = *values {
        let suitable = match settings.delivery {
            // Under Agg a record has no confirmed bits before its whole set is verified.
            Delivery::Verified => Family::Agg,
            _ => Family::R2d2,
        };
        settings.adapt = Some(Adapt::within(family.unwrap_or(suitable)));
        settings.aggregation = AggregationPolicy::family(family.unwrap_or(suitable));
        if family.is_none() {
            // The other end may prefer the other family for what it receives.
            let other = AggregationPolicy::family(other(suitable));
            settings.aggregation.send.extend(other.send);
            settings.aggregation.receive.extend(other.receive);
        }
        return Ok(());
    }
    let schemes = values.iter().map(|value| match value {
        Aggregate::Scheme(scheme) => Ok(*scheme),
        Aggregate::Auto(_) => Err(Failure::new("`auto` must be the only value of --aggregate")),
    });
    let schemes = schemes.collect::<Result<Vec<_>, _>>()?;
    settings.aggregation = AggregationPolicy::new(schemes.clone(), schemes);
    Ok(())
}

const fn other(family: Family) -> Family {
    match family {
        Family::Agg => Family::R2d2,
        Family::R2d2 => Family::Agg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let scheme = |name: &str| Ok(Aggregate::Scheme(name.parse().unwrap()));
        for name in ["off", "agg:8", "r2d2:150", "agg:8+check", "r2d2:100+check"] {
            assert_eq!(name.parse(), scheme(name));
        }
        assert_eq!("auto".parse(), Ok(Aggregate::Auto(None)));
        assert_eq!("auto:agg".parse(), Ok(Aggregate::Auto(Some(Family::Agg))));
        assert_eq!("auto:r2d2".parse(), Ok(Aggregate::Auto(Some(Family::R2d2))));
        for wrong in ["auto:", "auto:8", "automatic", "agg", "agg:17", ""] {
            assert!(wrong.parse::<Aggregate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn auto_chooses_the_family_by_the_delivery_and_offers_both() {
        for (delivery, family, first) in [
            (Delivery::Verified, Family::Agg, "agg:8"),
            (Delivery::Progressive(64), Family::R2d2, "r2d2:100"),
            (Delivery::Unauthenticated, Family::R2d2, "r2d2:100"),
        ] {
            let mut settings = crate::provider::settings().unwrap();
            settings.delivery = delivery;
            apply(&[Aggregate::Auto(None)], &mut settings).unwrap();
            assert_eq!(settings.adapt, Some(Adapt::within(family)));
            let AggregationPolicy { send, receive, .. } = &settings.aggregation;
            assert_eq!((send.len(), receive[0]), (8, first.parse().unwrap()));
            apply(&[Aggregate::Auto(Some(Family::Agg))], &mut settings).unwrap();
            assert_eq!(settings.aggregation, AggregationPolicy::family(Family::Agg));
        }
    }

    #[test]
    fn auto_stands_alone() {
        let mut settings = crate::provider::settings().unwrap();
        let values = [Aggregate::Auto(None), Aggregate::Scheme(Scheme::Plain)];
        assert!(apply(&values, &mut settings).is_err());
        apply(&values[1..], &mut settings).unwrap();
        assert_eq!(settings.adapt, None);
    }
}
