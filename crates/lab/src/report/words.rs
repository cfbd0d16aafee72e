//! Names of columns for readers: words, with the unit in brackets.

/// The endings of column names, and the units they stand for. Longer endings come first.
const UNITS: [(&str, &str); 17] = [
    ("_microjoules_per_byte", "µJ per byte"),
    ("_mbit_s", "Mbit/s"),
    ("_seconds", "s"),
    ("_percent", "%"),
    ("_erlangs", "erlang"),
    ("_minutes", "min"),
    ("_blocks", "blocks"),
    ("_hertz", "Hz"),
    ("_bytes", "bytes"),
    ("_bits", "bits"),
    ("_mj", "mJ"),
    ("_kb", "kB"),
    ("_ms", "ms"),
    ("_us", "µs"),
    ("_h", "h"),
    ("_s", "s"),
    ("_x", "times"),
];

/// Abbreviations in column names, and how they are written out.
const WORDS: [(&str, &str); 11] = [
    ("p95", "95th percentile,"),
    ("cpu", "CPU"),
    ("mac", "MAC"),
    ("tsch", "TSCH"),
    ("tcp", "TCP"),
    ("rtt", "round trip,"),
    ("mdev", "mean deviation"),
    ("cooja", "Cooja"),
    ("axiom", "Axiom"),
    ("lightmac", "LightMAC"),
    ("mul_uni", "Mul-Uni"),
];

/// The heading of a column, by its name: `energy_error_mj` is "energy error (mJ)".
pub(super) fn words(name: &str) -> String {
    let unit = UNITS.iter().find_map(|(ending, unit)| {
        let rest = name.strip_suffix(ending).filter(|rest| !rest.is_empty())?;
        Some((rest, *unit))
    });
    let (name, unit) = unit.map_or((name, None), |(rest, unit)| (rest, Some(unit)));
    let name = name.replace("mul_uni", "Mul-Uni");
    let word = |part: &str| {
        let known = WORDS.iter().find(|(plain, _)| *plain == part);
        known.map_or_else(|| part.to_owned(), |(_, written)| (*written).to_owned())
    };
    let text = name.split('_').map(word).collect::<Vec<_>>().join(" ");
    let text = text.trim_end_matches(',');
    unit.map_or_else(|| text.to_owned(), |unit| format!("{text} ({unit})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;
    use crate::report::TABLES;
    use crate::report::stored::{included, newest_each};

    #[test]
    fn units_stand_in_brackets() {
        for (name, expected) in [
            ("duration_error_s", "duration error (s)"),
            ("energy_error_mj", "energy error (mJ)"),
            ("p95_s", "95th percentile (s)"),
            ("p95_delay_s", "95th percentile, delay (s)"),
            ("success_percent", "success (%)"),
            ("percent", "percent"),
            ("bytes", "bytes"),
            ("payload_bytes", "payload (bytes)"),
            ("8_KiB", "8 KiB"),
            ("over_lightmac", "over LightMAC"),
            ("beyond_mul_uni_kb", "beyond Mul-Uni (kB)"),
            ("keys_cpu_mj", "keys CPU (mJ)"),
            ("paper_1_s", "paper 1 (s)"),
            ("tcp_mbit_s", "TCP (Mbit/s)"),
        ] {
            assert_eq!(words(name), expected);
        }
    }

    #[test]
    fn heads_of_stored_tables_are_unique_words() {
        let sets = included().unwrap();
        for stored in TABLES {
            for set in newest_each(&sets, stored.set) {
                let table = (stored.read)(&set.result).unwrap().table;
                let mut heads: Vec<String> = table.columns.iter().map(|c| words(c.name)).collect();
                assert!(heads.iter().all(|head| !head.contains('_')), "{heads:?}");
                heads.sort();
                heads.dedup();
                assert_eq!(heads.len(), table.columns.len(), "{}", stored.name);
            }
        }
        assert!(!FIGURES.is_empty());
    }
}
