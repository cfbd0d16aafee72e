//! Tests that reported while they ran that they are skipped.

use std::collections::{BTreeMap, BTreeSet};

/// Skipped tests, each with its reason.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    /// The names of skipped tests by reason.
    reasons: BTreeMap<String, BTreeSet<String>>,
}

impl Skipped {
    pub(crate) fn add(&mut self, name: &str, reason: &str) {
        self.reasons.entry(reason.to_owned()).or_default().insert(name.to_owned());
    }

    /// Reads the lines that the crate `skip` writes. Returns how many of the skipped tests the
    /// harness has counted as passed.
    pub(crate) fn read(&mut self, text: &str) -> u64 {
        let mut counted = BTreeSet::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.splitn(4, '\t').collect();
            let [kind, program, test, reason] = fields[..] else { continue };
            let name = format!("{program}: {test}");
            self.add(&name, reason);
            if kind == skip::COUNTED {
                counted.insert(name);
            }
        }
        counted.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.reasons.values().flatten().collect::<BTreeSet<_>>().len()
    }

    /// One line for each reason, with the names of the tests that are skipped for it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(reason, names): (&String, &BTreeSet<String>)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("skipped: {reason}: {}", names.join(", "))
        };
        self.reasons.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_skipped_twice_counts_once() {
        let mut skipped = Skipped::default();
        let text = "counted\tnet\ta\tno root\ncounted\tnet\ta\tno root\nuncounted\tnet\tb (IPv6)\tno root\n\
                    counted\tlab dissector\tc\tno tshark\nhalf a line";
        assert_eq!(skipped.read(text), 2);
        assert_eq!(skipped.len(), 3);
        let lines =
            ["skipped: no root: net: a, net: b (IPv6)", "skipped: no tshark: lab dissector: c"];
        assert_eq!(skipped.lines(), lines);
    }
}
