//! Live readings of this machine, as a sensor would report them: ten bytes each.
//!
//! ```text
//! byte 0..3   number of the reading, 24 bits, big-endian
//! byte 3      which instrument
//! byte 4..10  its value, 48 bits, big-endian
//! ```

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Length of a message in bytes.
pub(crate) const MESSAGE_BYTES: usize = 10;

/// The number of readings that can be told apart.
pub(crate) const MOST: u32 = 1 << 24;

/// A message with one reading.
pub(crate) type Message = [u8; MESSAGE_BYTES];

/// How often the instruments are read. All readings of one round come from the same moment.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The instruments of this machine, whose values are sent in turn.
#[derive(Debug)]
pub(crate) struct Readings {
    values: Vec<(&'static str, u64)>,
    looked_at: Instant,
    next: u32,
}

impl Readings {
    /// Reads all instruments.
    pub(crate) fn new() -> Self {
        Self { values: look(), looked_at: Instant::now(), next: 0 }
    }

    /// The instruments in words.
    pub(crate) fn source(&self) -> String {
        let names: Vec<_> = self.values.iter().map(|(name, _)| *name).collect();
        format!("live readings of this machine ({})", names.join(", "))
    }

    /// The number of readings that were taken.
    pub(crate) fn taken(&self) -> u32 {
        self.next
    }

    /// The next reading.
    pub(crate) fn take(&mut self) -> Message {
        if self.looked_at.elapsed() >= POLL_INTERVAL {
            self.values = look();
            self.looked_at = Instant::now();
        }
        let number = self.next;
        self.next += 1;
        let instrument = number as usize % self.values.len();
        let value = self.values.get(instrument).map_or(0, |(_, value)| *value);
        let [_, number @ ..] = number.to_be_bytes();
        let [_, _, value @ ..] = value.to_be_bytes();
        let mut message = [0; MESSAGE_BYTES];
        message[..3].copy_from_slice(&number);
        message[3] = instrument as u8;
        message[4..].copy_from_slice(&value);
        message
    }
}

/// The number of the reading in a message; `None` if the message has another length.
pub(crate) fn number(message: &[u8]) -> Option<usize> {
    let [a, b, c, _, _, _, _, _, _, _] = *message else { return None };
    usize::try_from(u32::from_be_bytes([0, a, b, c])).ok()
}

/// The values of all instruments that this machine has. The clock is always among them.
fn look() -> Vec<(&'static str, u64)> {
    let mut values = Vec::new();
    let stat = read("/proc/stat");
    if let Some(cpu) = line(&stat, "cpu ") {
        let ticks: Vec<u64> = numbers(cpu).collect();
        values.push(("CPU ticks busy", ticks.iter().take(3).sum()));
        values.extend(ticks.get(3).map(|idle| ("CPU ticks idle", *idle)));
    }
    for (prefix, name) in [
        ("ctxt ", "context switches"),
        ("intr ", "interrupts"),
        ("processes ", "processes started"),
    ] {
        values.extend(line(&stat, prefix).and_then(|rest| numbers(rest).next()).map(|n| (name, n)));
    }
    let memory = read("/proc/meminfo");
    for (prefix, name) in
        [("MemAvailable:", "memory available"), ("Dirty:", "memory to be written")]
    {
        let value = line(&memory, prefix).and_then(|rest| numbers(rest).next());
        values.extend(value.map(|kib| (name, kib)));
    }
    let load = read("/proc/loadavg");
    values.extend(hundredths(&load).map(|load| ("load average", load)));
    let faults = read("/proc/vmstat");
    let value = line(&faults, "pgfault ").and_then(|rest| numbers(rest).next());
    values.extend(value.map(|faults| ("page faults", faults)));
    let devices = read("/proc/net/dev");
    if !devices.is_empty() {
        let bytes = |column: usize| {
            let rows = devices.lines().filter_map(|line| line.split_once(':'));
            rows.filter_map(|(_, row)| numbers(row).nth(column)).fold(0, u64::wrapping_add)
        };
        values.push(("bytes received", bytes(0)));
        values.push(("bytes sent", bytes(8)));
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    values.push(("clock", clock.as_micros() as u64));
    values
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn line<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(prefix))
}

fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.split_whitespace().filter_map(|word| word.parse().ok())
}

/// The first number of a text such as `0.42 0.30`, times a hundred.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_whitespace().next()?.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 100 + part.get(..2)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_numbered_and_take_turns() {
        let mut readings = Readings::new();
        let instruments = readings.values.len();
        assert!(instruments >= 1 && readings.source().contains("clock"));
        for expected in 0..3 * instruments {
            let message = readings.take();
            assert_eq!(number(&message), Some(expected));
            assert_eq!(usize::from(message[3]), expected % instruments);
        }
        assert_eq!(number(&[0; MESSAGE_BYTES - 1]), None);
        assert_eq!(number(&[0; MESSAGE_BYTES + 1]), None);
    }

    #[test]
    fn a_load_average_is_read_without_floating_point() {
        assert_eq!(hundredths("12.34 0.30 0.20"), Some(1234));
        assert_eq!(hundredths("none"), None);
    }
}
