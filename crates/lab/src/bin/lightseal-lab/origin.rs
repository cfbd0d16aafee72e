//! The first line of a file of rows. It names the sweep to which the rows belong, and has a digest
//! of them.

use crate::tables::TableFormat;
use clap::ValueEnum;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    Csv,
    Jsonl,
}

impl RowFormat {
    pub(crate) const fn form(self) -> TableFormat {
        match self {
            Self::Csv => TableFormat::Csv,
            Self::Jsonl => TableFormat::JsonLines,
        }
    }
}

/// How the shards divide a sweep among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// Each shard has every N-th point, with all runs of it.
    Points,
    /// Each shard has every point, with an N-th of its runs.
    Runs,
}

/// What a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowContent {
    /// Each row describes a point.
    Summaries,
    /// Each row describes a handshake.
    Handshakes,
    /// Each row has the cost of a handshake, from which summaries are computed.
    Costs,
}

impl RowContent {
    const ALL: [Self; 3] = [Self::Summaries, Self::Handshakes, Self::Costs];

    const fn name(self) -> &'static str {
        match self {
            Self::Summaries => "summaries",
            Self::Handshakes => "handshakes",
            Self::Costs => "costs",
        }
    }
}

/// One of the parts into which a sweep is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The number of the shard, from 1 to `count`.
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl Shard {
    /// The only shard of a sweep that is not divided.
    pub(crate) const WHOLE: Self = Self { index: 1, count: 1 };

    /// Whether a point belongs to this shard if points are divided. The remainder of its number
    /// divided by `count` is then `index` − 1.
    pub(crate) const fn has(self, point: usize) -> bool {
        point % self.count == self.index - 1
    }

    /// The runs of a point that belong to this shard if runs are divided. They are consecutive, so
    /// that the shards in their order have all runs in order.
    pub(crate) fn part(self, runs: u32) -> Range<u32> {
        let at = |index: usize| (u64::from(runs) * index as u64 / self.count as u64) as u32;
        at(self.index - 1)..at(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        let right = |shard: &Self| (1..=shard.count).contains(&shard.index) && shard.count < 10_000;
        parts.filter(right).ok_or("expected I/N, such as 1/4, with I from 1 to N")
    }
}

/// What the rows of a file belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SweepHeader {
    /// SHA-256 of the scenario, and of everything else on which its rows depend.
    pub(crate) digest: String,
    /// Number of points in the whole grid.
    pub(crate) points: usize,
    pub(crate) shard: Shard,
    pub(crate) split: Split,
    pub(crate) content: RowContent,
    /// Number of rows that follow.
    pub(crate) rows: usize,
    /// SHA-256 of everything behind this line.
    pub(crate) rows_digest: String,
}

const CSV_MARK: &str = "# lightseal lab sweep";
const JSON_MARK: &str = r#"{"lightseal lab sweep":""#;

impl SweepHeader {
    /// A placeholder for the digest of rows that are not written yet.
    pub(crate) const NO_ROWS: &str =
        "0000000000000000000000000000000000000000000000000000000000000000";

    /// The first line of a file.
    pub(crate) fn line(&self, format: RowFormat) -> String {
        let Self { digest, points, shard, split, content, rows, rows_digest } = self;
        let split = match split {
            Split::Points => "points",
            Split::Runs => "runs",
        };
        let content = content.name();
        let text = format!(
            "sha256={digest} points={points} shard={shard} split={split} content={content} \
             rows={rows} rows_sha256={rows_digest}"
        );
        match format {
            RowFormat::Csv => format!("{CSV_MARK} {text}\n"),
            RowFormat::Jsonl => format!("{JSON_MARK}{text}\"}}\n"),
        }
    }

    /// Parses the first line of a file, without its line end.
    pub(crate) fn read(line: &str) -> Option<(Self, RowFormat)> {
        let (text, format) = match line.strip_prefix(CSV_MARK) {
            Some(text) => (text, RowFormat::Csv),
            None => (line.strip_prefix(JSON_MARK)?.strip_suffix("\"}")?, RowFormat::Jsonl),
        };
        let mut parts = text.split_whitespace();
        let mut part = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
        let digest = part("sha256")?.to_owned();
        let points = part("points")?.parse().ok()?;
        let shard = part("shard")?.parse().ok()?;
        let split = match part("split")? {
            "points" => Split::Points,
            "runs" => Split::Runs,
            _ => return None,
        };
        let content = part("content")?;
        let content = RowContent::ALL.into_iter().find(|known| known.name() == content)?;
        let rows = part("rows")?.parse().ok()?;
        let rows_digest = part("rows_sha256")?.to_owned();
        Some((Self { digest, points, shard, split, content, rows, rows_digest }, format))
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_all_points_and_all_runs() {
        let shards: Vec<Shard> = (1..=3).map(|index| Shard { index, count: 3 }).collect();
        for point in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(point)).count(), 1);
        }
        for runs in [0, 1, 2, 3, 1000, u32::MAX] {
            let parts = shards.iter().map(|shard| shard.part(runs));
            let end = parts.fold(0, |from, part| {
                assert_eq!(part.start, from);
                part.end
            });
            assert_eq!(end, runs);
        }
        assert_eq!("2/3".parse(), Ok(shards[1]));
        for wrong in ["", "1", "0/1", "2/1", "1/0", "a/b", "1/99999"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_rows_are_of_is_read_again() {
        for (format, content) in
            [(RowFormat::Csv, RowContent::Costs), (RowFormat::Jsonl, RowContent::Handshakes)]
        {
            let origin = SweepHeader {
                digest: "ab".into(),
                points: 7,
                shard: Shard { index: 2, count: 3 },
                split: Split::Runs,
                content,
                rows: 2,
                rows_digest: SweepHeader::NO_ROWS.into(),
            };
            let line = origin.line(format);
            assert_eq!(SweepHeader::read(line.trim_end()), Some((origin, format)));
        }
        assert_eq!(SweepHeader::read("point,seed"), None);
    }
}
