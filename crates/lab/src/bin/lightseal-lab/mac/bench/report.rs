//! The measured figures as tables, CSV and JSON.

use super::contenders::{MessageOrder, Mode};
use lightseal_cli::ciphers::CipherName;
use lightseal_measure::Spread;
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// One measured figure. Times are per message.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cipher: CipherName,
    pub(super) kernel: &'static str,
    pub(super) mode: Mode,
    pub(super) form: MessageOrder,
    pub(super) bytes: usize,
    pub(super) ns: Spread,
    /// Core cycles per message.
    pub(super) cycles: Spread,
    /// LightMAC's speed, divided by the cipher's speed on many blocks times (n − s)/n.
    pub(super) of_limit: Option<Spread>,
    /// The time of another MAC, divided by that of LightMAC with a counter of n/3 bits.
    pub(super) over_lightmac: Option<Spread>,
}

/// All measured figures.
pub(super) struct Report {
    turns: usize,
    rows: Vec<Row>,
    /// The core's clock rate in GHz in each race.
    clocks_ghz: Vec<Spread>,
}

impl Report {
    pub(super) fn new(turns: usize) -> Self {
        Self { turns, rows: Vec::new(), clocks_ghz: Vec::new() }
    }

    /// Adds the figures of a race.
    pub(super) fn add(&mut self, rows: Vec<Row>, clock_ghz: Spread) {
        // The cipher alone runs in every race; only its figure from the first race is kept.
        let known = |row: &Row| {
            row.mode == Mode::Ecb && self.rows.iter().any(|other| other.same_but_length(row))
        };
        let new: Vec<_> = rows.into_iter().filter(|row| !known(row)).collect();
        self.rows.extend(new);
        self.clocks_ghz.push(clock_ghz);
    }

    fn clock_ghz(&self) -> Spread {
        Spread::of(self.clocks_ghz.iter().map(|clock| clock.median).collect())
    }

    pub(super) fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let all = json!({
            "clock_ghz": spread(&self.clock_ghz()),
            "rows": rows,
            "turns": self.turns,
        });
        format!("{all:#}\n")
    }

    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "cipher,kernel,mac,counter_bits,form,bytes,ns_low,ns_median,ns_high,\
             cycles_low,cycles_median,cycles_high,cycles_per_byte\n",
        );
        for row in &self.rows {
            let Row { cipher, kernel, mode, form, bytes, ns, cycles, .. } = row;
            let s = mode.counter_bits().map_or(String::new(), |s| s.to_string());
            let (mac, form) = (mode.name(), form.name());
            let (ns, cycles) = (low_median_high(ns), low_median_high(cycles));
            let per_byte = row.cycles_per_byte();
            let line =
                format!("{cipher},{kernel},{mac},{s},{form},{bytes},{ns},{cycles},{per_byte:.4}\n");
            text += &line;
        }
        text
    }

    pub(super) fn tables(&self) -> String {
        let mut text = String::new();
        let mut written: Vec<(CipherName, &str)> = Vec::new();
        for row in &self.rows {
            if !written.contains(&(row.cipher, row.kernel)) {
                written.push((row.cipher, row.kernel));
                // Writing to a string cannot fail.
                let _ = self.write_cipher(&mut text, row.cipher, row.kernel);
            }
        }
        let Spread { low, median, high } = self.clock_ghz();
        let turns = self.turns;
        let _ = writeln!(
            text,
            "Core clock {median:.3} GHz ({low:.3} to {high:.3} between races). Medians of {turns} turns; \
             ± is half the distance\nof the quartiles, for the figure of a line where it is largest. CMAC and PMAC \
             are RustCrypto's\nover the same kernel, HMAC and GMAC are entirely RustCrypto's; PMAC/P has masks of our own."
        );
        text
    }

    fn write_cipher(&self, to: &mut String, cipher: CipherName, kernel: &str) -> fmt::Result {
        let rows: Vec<&Row> =
            self.rows.iter().filter(|row| row.cipher == cipher && row.kernel == kernel).collect();
        writeln!(to, "{cipher}, kernel {kernel}\n")?;
        for (form, what) in [
            (MessageOrder::Alone, "one block after another"),
            (MessageOrder::Batch, "many blocks at a time"),
        ] {
            let ecb = rows.iter().find(|row| row.mode == Mode::Ecb && row.form == form);
            if let Some(row) = ecb {
                let (per_byte, spread) = (row.cycles_per_byte(), row.spread_percent());
                writeln!(to, "  {what:24} {per_byte:8.3} cycles/byte  ±{spread:.1} %")?;
            }
        }
        writeln!(to)?;
        for (form, how) in [
            (MessageOrder::BackToBack, "messages back to back"),
            (MessageOrder::Batch, "messages in batches"),
            (MessageOrder::Alone, "each message begun when the last is done"),
        ] {
            let rows: Vec<&Row> = rows
                .iter()
                .copied()
                .filter(|row| row.mode != Mode::Ecb && row.form == form)
                .collect();
            if !rows.is_empty() {
                write_table(to, &format!("cycles/byte, {how}"), &rows, Row::cycles_per_byte)?;
                write_table(to, &format!("ns a message, {how}"), &rows, |row| row.ns.median)?;
            }
        }
        Ok(())
    }
}

/// Writes modes as rows and lengths as columns. A cell is blank if the mode does not take the
/// length.
fn write_table(
    to: &mut String,
    title: &str,
    rows: &[&Row],
    figure: impl Fn(&Row) -> f64,
) -> fmt::Result {
    let (mut lengths, mut modes) = (Vec::new(), Vec::new());
    for row in rows {
        if !lengths.contains(&row.bytes) {
            lengths.push(row.bytes);
        }
        if !modes.contains(&row.mode) {
            modes.push(row.mode);
        }
    }
    writeln!(to, "  {title}")?;
    write!(to, "  {:16}", "bytes")?;
    for length in &lengths {
        write!(to, "{length:>9}")?;
    }
    writeln!(to)?;
    for mode in modes {
        write!(to, "  {:16}", mode.to_string())?;
        let mut widest: f64 = 0.0;
        for length in &lengths {
            match rows.iter().find(|row| row.mode == mode && row.bytes == *length) {
                Some(row) => {
                    widest = widest.max(row.spread_percent());
                    let figure = figure(row);
                    let decimals = if figure < 10.0 { 3 } else { 1 };
                    write!(to, "{figure:>9.decimals$}")?;
                }
                None => write!(to, "{:9}", "")?,
            }
        }
        writeln!(to, "  ±{widest:.1} %")?;
    }
    writeln!(to)
}

impl Row {
    fn cycles_per_byte(&self) -> f64 {
        self.cycles.median / self.bytes as f64
    }

    /// Half the distance of the quartiles, in percent of the median.
    fn spread_percent(&self) -> f64 {
        let Spread { low, median, high } = self.cycles;
        50.0 * (high - low) / median
    }

    fn same_but_length(&self, other: &Self) -> bool {
        (self.cipher, self.kernel, self.mode, self.form)
            == (other.cipher, other.kernel, other.mode, other.form)
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "bytes": self.bytes,
            "cipher": self.cipher.to_string(),
            "cycles": spread(&self.cycles),
            "cycles_per_byte": spread(&self.cycles.scaled(1.0 / self.bytes as f64)),
            "form": self.form.name(),
            "kernel": self.kernel,
            "mac": self.mode.name(),
            "ns": spread(&self.ns),
        });
        if let Some(s) = self.mode.counter_bits() {
            value["counter_bits"] = s.into();
        }
        if let Some(of_limit) = &self.of_limit {
            value["of_limit"] = spread(of_limit);
        }
        if let Some(over_lightmac) = &self.over_lightmac {
            value["over_lightmac"] = spread(over_lightmac);
        }
        value
    }
}

fn spread(spread: &Spread) -> Value {
    json!({ "low": spread.low, "median": spread.median, "high": spread.high })
}

fn low_median_high(spread: &Spread) -> String {
    format!("{:.2},{:.2},{:.2}", spread.low, spread.median, spread.high)
}

impl Mode {
    /// The name in CSV and JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Ecb => "ecb",
            Self::LightMac(_) => "lightmac",
            Self::Emac => "emac",
            Self::PmacParity => "pmac-parity",
            Self::Cmac => "cmac",
            Self::Pmac => "pmac",
            Self::HmacSha256 => "hmac-sha256",
            Self::Gmac => "gmac",
        }
    }

    fn counter_bits(self) -> Option<u32> {
        match self {
            Self::LightMac(s) => Some(s),
            _ => None,
        }
    }
}

/// The name in tables.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LightMac(s) => write!(f, "LightMAC s = {s}"),
            Self::Ecb => f.write_str("ECB"),
            Self::Emac => f.write_str("EMAC"),
            Self::PmacParity => f.write_str("PMAC/P"),
            Self::Cmac => f.write_str("CMAC"),
            Self::Pmac => f.write_str("PMAC"),
            Self::HmacSha256 => f.write_str("HMAC-SHA256"),
            Self::Gmac => f.write_str("GMAC"),
        }
    }
}

impl MessageOrder {
    /// The name in CSV and JSON.
    fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "back-to-back",
            Self::Batch => "batch",
            Self::Alone => "alone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mode: Mode, form: MessageOrder, bytes: usize) -> Row {
        let exact = |value| Spread { low: value * 0.99, median: value, high: value * 1.01 };
        Row {
            cipher: CipherName::Aes128,
            kernel: "portable",
            mode,
            form,
            bytes,
            ns: exact(2.0 * bytes as f64),
            cycles: exact(8.0 * bytes as f64),
            of_limit: None,
            over_lightmac: None,
        }
    }

    fn report() -> Report {
        let mut report = Report::new(3);
        let clock = Spread { low: 3.9, median: 4.0, high: 4.1 };
        let ecb = || row(Mode::Ecb, MessageOrder::Batch, 8192);
        report.add(vec![ecb(), row(Mode::LightMac(8), MessageOrder::BackToBack, 64)], clock);
        report.add(vec![ecb(), row(Mode::LightMac(8), MessageOrder::BackToBack, 128)], clock);
        report.add(vec![ecb(), row(Mode::LightMac(64), MessageOrder::BackToBack, 128)], clock);
        report
    }

    #[test]
    fn a_length_that_a_mode_does_not_take_is_blank() {
        let text = report().tables();
        let line = |start| text.lines().find(|line| line.trim().starts_with(start)).unwrap();
        assert_eq!(line("LightMAC s = 8").matches("8.000").count(), 2, "{text}");
        assert_eq!(line("LightMAC s = 64").matches("8.000").count(), 1, "{text}");
        assert!(line("many blocks").contains("8.000 cycles/byte  ±1.0 %"), "{text}");
        assert!(text.contains("Core clock 4.000 GHz"));
    }

    #[test]
    fn the_cipher_by_itself_is_told_once() {
        let report = report();
        assert_eq!(report.csv().lines().count(), 1 + 4);
        assert_eq!(report.csv().matches(",ecb,").count(), 1);
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 4);
        assert_eq!(json["rows"][1]["counter_bits"], 8);
        assert_eq!(json["rows"][1]["cycles_per_byte"]["median"], 8.0);
        assert_eq!(json["clock_ghz"]["median"], 4.0);
    }
}
