//! Quantities as users write them, on the command line and in configuration
//! files.

use lightseal_net::Probability;
use std::str::FromStr;
use std::time::Duration;

/// A quantity that is written as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity<T>(pub T);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitsPerSecond(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Splits `12.5ms` into 12.5 and `ms`.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().ok().filter(|n: &f64| n.is_finite())?;
    Some((number, unit.trim()))
}

/// `number` times `scale`, rounded; `None` if a `u64` does not hold it.
fn scaled(number: f64, scale: f64) -> Option<u64> {
    let value = (number * scale).round();
    (0.0..=9e18).contains(&value).then_some(value as u64)
}

impl FromStr for Quantity<Duration> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a time such as 200ms, 1.5s, 5min or 2h";
        let (number, unit) = split(text).ok_or(EXPECTED)?;
        let micros_per_unit = match unit {
            "us" | "µs" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            "m" | "min" => 60e6,
            "h" => 3600e6,
            "" if number == 0.0 => 0.0,
            _ => return Err(EXPECTED),
        };
        scaled(number, micros_per_unit).map(|us| Self(Duration::from_micros(us))).ok_or(EXPECTED)
    }
}

impl FromStr for Quantity<BitsPerSecond> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a rate such as 9600bit, 250kbit or 10Mbit (a second)";
        let (number, unit) = split(text).ok_or(EXPECTED)?;
        let bits_per_unit = match unit.trim_end_matches("/s") {
            "bit" | "bps" => 1.0,
            "kbit" | "kbps" => 1e3,
            "Mbit" | "mbit" | "Mbps" => 1e6,
            "Gbit" | "gbit" | "Gbps" => 1e9,
            "" if number == 0.0 => 0.0,
            _ => return Err(EXPECTED),
        };
        scaled(number, bits_per_unit).map(|bits| Self(BitsPerSecond(bits))).ok_or(EXPECTED)
    }
}

impl FromStr for Quantity<Bytes> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a size such as 1200, 1200B, 64KiB or 1MiB";
        let (number, unit) = split(text).ok_or(EXPECTED)?;
        let bytes_per_unit = match unit {
            "" | "B" => 1.0,
            "kB" => 1e3,
            "KiB" | "K" => 1024.0,
            "MB" => 1e6,
            "MiB" | "M" => 1_048_576.0,
            _ => return Err(EXPECTED),
        };
        scaled(number, bytes_per_unit).map(|bytes| Self(Bytes(bytes))).ok_or(EXPECTED)
    }
}

impl FromStr for Quantity<Probability> {
    type Err = lightseal_net::impairment::NotAProbability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A number of things with the right plural: `1 key`, `2 keys`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A duration for messages, in the units that suit its size: `5 s`, `12 min`, `2 h 05 min`, `3 d 4
/// h`.
pub fn spoken(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str) -> Option<Duration> {
        text.parse::<Quantity<Duration>>().ok().map(|quantity| quantity.0)
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(duration("1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("5min"), Some(Duration::from_secs(300)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        for wrong in ["", "5", "-1s", "1parsec", "1e30s", "99999999999999h", "s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_and_sizes() {
        assert_eq!("250kbit".parse(), Ok(Quantity(BitsPerSecond(250_000))));
        assert_eq!("1.5 Mbit/s".parse(), Ok(Quantity(BitsPerSecond(1_500_000))));
        assert!("250".parse::<Quantity<BitsPerSecond>>().is_err());
        assert_eq!("64KiB".parse(), Ok(Quantity(Bytes(65_536))));
        assert_eq!("1200".parse(), Ok(Quantity(Bytes(1200))));
        assert!("1200 miles".parse::<Quantity<Bytes>>().is_err());
    }
}
