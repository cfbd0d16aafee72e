//! `lightseal lab merge`: the shards of a sweep become what the sweep would have written at once.

use super::sweep::{Format, Origin, Shard, output};
use crate::failure::{Context, Failure};
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct MergeArgs {
    /// What `lightseal lab sweep --shard` has written: all shards of one sweep.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write into this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A file of rows.
struct Part {
    name: String,
    origin: Origin,
    format: Format,
    /// Of CSV.
    header: String,
    /// Each with its point, in order.
    rows: Vec<(usize, String)>,
}

/// Puts shards together.
pub(crate) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).context(&name)?;
        parts.push(Part::read(name, &text)?);
    }
    output(args.out.as_deref(), &merged(&parts)?)
}

fn merged(parts: &[Part]) -> Result<String, Failure> {
    let Some(first) = parts.first() else { return Err(Failure::new("no files")) };
    let mut by_shard: Vec<Option<&Part>> = vec![None; first.origin.shard.count];
    for part in parts {
        let Part { name, origin, .. } = part;
        let same = |other: &Part| {
            origin.digest == other.origin.digest
                && origin.points == other.origin.points
                && origin.shard.count == other.origin.shard.count
                && (part.format, &part.header) == (other.format, &other.header)
        };
        if !same(first) {
            let reason = "is of another sweep, or of one with other options, than";
            return Err(Failure::new(format_args!("{name}: {reason} {}", first.name)));
        }
        let slot = &mut by_shard[origin.shard.index - 1];
        if let Some(other) = slot {
            let (shard, other) = (origin.shard, &other.name);
            return Err(Failure::new(format_args!("{name}: is shard {shard}, as is {other}")));
        }
        *slot = Some(part);
    }
    if let Some(missing) = by_shard.iter().position(Option::is_none) {
        let shard = Shard { index: missing + 1, count: by_shard.len() };
        return Err(Failure::new(format_args!("shard {shard} is missing")));
    }
    let mut rows: Vec<&(usize, String)> = parts.iter().flat_map(|part| &part.rows).collect();
    // Stable: rows of a point are all of one file.
    rows.sort_by_key(|(point, _)| *point);
    let origin = Origin { shard: Shard::WHOLE, rows: rows.len(), ..first.origin.clone() };
    let head = [origin.line(first.format), first.header.clone()];
    Ok(head.into_iter().chain(rows.into_iter().map(|(_, row)| format!("{row}\n"))).collect())
}

impl Part {
    fn read(name: String, text: &str) -> Result<Self, Failure> {
        let refuse = |reason: String| Err(Failure::new(format_args!("{name}: {reason}")));
        let mut lines = text.lines();
        let Some((origin, format)) = lines.next().and_then(Origin::read) else {
            return refuse("was not written by lightseal lab sweep".into());
        };
        let header = match format {
            Format::Csv => lines.next().map_or(String::new(), |line| format!("{line}\n")),
            Format::Jsonl => String::new(),
        };
        let mut rows: Vec<(usize, String)> = Vec::new();
        for line in lines {
            let Some(point) = point(line, format).filter(|p| *p < origin.points) else {
                return refuse(format!("has a row of no point of its sweep: {line}"));
            };
            rows.push((point, line.to_owned()));
        }
        let Origin { shard, rows: expected, points, .. } = origin;
        if rows.len() != expected || !text.ends_with('\n') {
            return refuse(format!("has {} whole rows instead of {expected}", rows.len()));
        }
        // Each of its points, in order, and no other's.
        let mut seen: Vec<usize> = rows.iter().map(|(point, _)| *point).collect();
        seen.dedup();
        if !seen.iter().copied().eq((0..points).filter(|point| shard.has(*point))) {
            return refuse(format!("has other points than those of shard {shard}"));
        }
        Ok(Self { name, origin, format, header, rows })
    }
}

/// The number of the point that a row is of, its first column.
fn point(line: &str, format: Format) -> Option<usize> {
    let text = match format {
        Format::Csv => line,
        Format::Jsonl => line.strip_prefix(r#"{"point":"#)?,
    };
    text.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, index: usize, rows: &[(usize, &str)]) -> Part {
        let shard = Shard { index, count: 2 };
        let origin = Origin { digest: "ab".into(), points: 3, shard, rows: rows.len() };
        let mut text = origin.line(Format::Csv) + "point,x\n";
        rows.iter().for_each(|(point, x)| text += &format!("{point},{x}\n"));
        Part::read(name.into(), &text).unwrap()
    }

    #[test]
    fn shards_come_together_whatever_their_order() {
        let (a, b) = (part("a", 1, &[(0, "q"), (0, "r"), (2, "s")]), part("b", 2, &[(1, "t")]));
        let text = merged(&[b, a]).unwrap();
        let whole = "# lightseal lab sweep sha256=ab points=3 shard=1/1 rows=4\npoint,x\n";
        assert_eq!(text, format!("{whole}0,q\n0,r\n1,t\n2,s\n"));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let a = || part("a", 1, &[(0, "q"), (2, "s")]);
        let b = || part("b", 2, &[(1, "t")]);
        let said = |parts: &[Part]| merged(parts).unwrap_err().to_string();
        assert_eq!(said(&[a()]), "shard 2/2 is missing");
        assert_eq!(said(&[a(), b(), a()]), "a: is shard 1/2, as is a");
        let mut other = b();
        other.origin.digest = "cd".into();
        assert!(said(&[a(), other]).starts_with("b: is of another sweep"));
    }

    #[test]
    fn files_that_were_cut_are_refused() {
        let shard = Shard { index: 1, count: 1 };
        let origin = Origin { digest: "ab".into(), points: 2, shard, rows: 2 };
        let head = origin.line(Format::Csv) + "point,x\n";
        let read = |rows: &str| Part::read("f".into(), &(head.clone() + rows)).is_ok();
        assert!(read("0,a\n1,b\n"));
        for wrong in ["", "0,a\n", "0,a\n1,b", "0,a\n0,b\n", "1,b\n0,a\n", "0,a\n2,b\n", "0,a\nx\n"]
        {
            assert!(!read(wrong), "{wrong:?}");
        }
    }
}
