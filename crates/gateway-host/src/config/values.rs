//! Values as people write them, with their ranges.

use lightseal_gateway::schemes::SchemeName;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Visitor};
use std::fmt;
use std::time::Duration;

/// A number within `LOW..=HIGH`.
pub(super) fn within<'de, D, T, const LOW: u64, const HIGH: u64>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let number = d.deserialize_any(Number(false))?;
    let value = Some(number).filter(|number| (LOW..=HIGH).contains(number));
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
        Error::custom(format_args!("{number} is out of range: {LOW} to {HIGH} are possible"))
    })
}

/// A number of bytes within `LOW..=HIGH`: `1200`, `"64KiB"`, `"4MiB"`.
pub(super) fn bytes<'de, D, const LOW: u64, const HIGH: u64>(d: D) -> Result<usize, D::Error>
where
    D: Deserializer<'de>,
{
    let number = d.deserialize_any(Number(true))?;
    let value = Some(number).filter(|number| (LOW..=HIGH).contains(number));
    value.and_then(|value| usize::try_from(value).ok()).ok_or_else(|| {
        Error::custom(format_args!("{number} bytes are out of range: {LOW} to {HIGH} are possible"))
    })
}

/// A time within `LOW..=HIGH` milliseconds: `"200ms"`, `"25s"`, `"5m"`, `"1h"`, `"7d"`.
pub(super) fn time<'de, D, const LOW: u64, const HIGH: u64>(d: D) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    let time = d.deserialize_any(Time)?;
    if (Duration::from_millis(LOW)..=Duration::from_millis(HIGH)).contains(&time) {
        return Ok(time);
    }
    let (low, high) = (Written(LOW), Written(HIGH));
    Err(Error::custom(format_args!("out of range: {low} to {high} are possible")))
}

/// A time within `LOW..=HIGH` milliseconds, for a setting that may be absent.
pub(super) fn some_time<'de, D, const LOW: u64, const HIGH: u64>(
    d: D,
) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    time::<D, LOW, HIGH>(d).map(Some)
}

/// A user by name or number.
pub(super) fn user<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    d.deserialize_any(User).map(Some)
}

/// The name of a scheme. Schemes of earlier versions are refused with their replacement.
pub(super) fn scheme<'de, D: Deserializer<'de>>(d: D) -> Result<SchemeName, D::Error> {
    let name = String::deserialize(d)?;
    let (fault, replacement) = match name.as_str() {
        "identifier-paper" => ("a burst of losses stops its flows for good", "identifier"),
        "encryption-paper" => ("it forwards replayed and altered frames", "sealed"),
        _ => return SchemeName::deserialize(name.into_deserializer()),
    };
    Err(Error::custom(format_args!(
        "{name:?} is no longer supported, since {fault}; use {replacement:?} at all gateways"
    )))
}

/// Displays a number of milliseconds in the largest unit that divides it.
struct Written(u64);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = UNITS
            .iter()
            .rfind(|(ms, _)| self.0.is_multiple_of(*ms))
            .expect("1 ms divides every number");
        write!(f, "{}{name}", self.0 / unit)
    }
}

/// The milliseconds of each unit, ascending.
const UNITS: [(u64, &str); 5] =
    [(1, "ms"), (1_000, "s"), (60_000, "m"), (3_600_000, "h"), (86_400_000, "d")];

/// Splits `12ms` into 12 and `ms`; `None` if there is no number.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

fn parse_time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text.trim())?;
    let unit = if unit == "min" { "m" } else { unit };
    let (scale, _) = UNITS.iter().find(|(_, name)| *name == unit)?;
    number.checked_mul(*scale).map(Duration::from_millis)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text.trim())?;
    let scale = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(scale)
}

/// Reads a number. If it is a number of bytes (`true`), also a text with a unit.
struct Number(bool);

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "bytes such as 1200 or \"64KiB\"" } else { "a number" })
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::custom("the number must not be negative"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let bytes = if self.0 { parse_bytes(text) } else { None };
        bytes.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

struct User;

impl Visitor<'_> for User {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or number of a user")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

struct Time;

impl Visitor<'_> for Time {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"200ms\", \"25s\", \"5m\" or \"1h\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_time(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(parse_time("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(parse_time("5 min"), Some(Duration::from_secs(300)));
        assert_eq!(parse_time("7d"), Some(Duration::from_secs(604_800)));
        for wrong in ["", "5", "-1s", "1.5s", "5 parsec", "99999999999999999d", "s"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
        let written = |ms| Written(ms).to_string();
        assert_eq!(
            (written(1500), written(60_000), written(0)),
            ("1500ms".into(), "1m".into(), "0d".into())
        );
    }

    #[test]
    fn bytes_may_have_one() {
        assert_eq!(parse_bytes("1200"), Some(1200));
        assert_eq!(parse_bytes("64KiB"), Some(65_536));
        assert_eq!(parse_bytes("4 MiB"), Some(4 << 20));
        for wrong in ["", "KiB", "1.5MiB", "1 mile", "99999999999999GiB"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }
}
