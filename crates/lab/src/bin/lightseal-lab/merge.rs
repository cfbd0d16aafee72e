//! `lightseal-lab merge`: makes of the shards of a sweep what the whole sweep would have written.

use crate::origin::{RowContent, RowFormat, Shard, Split, SweepHeader, hexadecimal};
use crate::sweep::{summary_row, write};
use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_lab::handshakes::{Cost, Totals};
use lightseal_lab::scenario::{COST_COLUMNS, Rows, SUMMARY_COLUMNS};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct MergeArgs {
    /// Files that `lightseal lab sweep --shard` wrote: all shards of one sweep.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write into this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A file of rows that a sweep wrote.
struct RowFile {
    name: String,
    origin: SweepHeader,
    format: RowFormat,
    /// The header line of a CSV file; empty for JSON lines.
    header: String,
    /// The rows in their order, each with the number of its point.
    rows: Vec<(usize, String)>,
}

/// Merges the shards.
pub(crate) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).context(&name)?;
        parts.push(RowFile::read(name, &text)?);
    }
    write(args.out.as_deref(), &merged(parts)?)
}

fn merged(parts: Vec<RowFile>) -> Result<String, Failure> {
    let parts = in_order(parts)?;
    let Some(first) = parts.first() else { return Err(Failure::new("no files")) };
    let (origin, format) = (first.origin.clone(), first.format);
    let (header, rows) = match origin.content {
        RowContent::Costs => (summary_header(&first.header), summaries(&parts)?),
        RowContent::Summaries | RowContent::Handshakes => {
            let mut rows: Vec<&(usize, String)> =
                parts.iter().flat_map(|part| &part.rows).collect();
            // The sort is stable. If shards share the runs of a point, the rows keep the order of
            // the runs.
            rows.sort_by_key(|(point, _)| *point);
            let rows: Vec<String> = rows.into_iter().map(|(_, row)| format!("{row}\n")).collect();
            (first.header.clone(), rows)
        }
    };
    let count = rows.len();
    let text: String = std::iter::once(header).chain(rows).collect();
    let content = match origin.content {
        RowContent::Costs => RowContent::Summaries,
        other => other,
    };
    let whole = SweepHeader {
        shard: Shard::WHOLE,
        split: Split::Points,
        content,
        rows: count,
        rows_digest: hexadecimal(&Sha256::digest(&text)),
        ..origin
    };
    Ok(whole.line(format) + &text)
}

/// All shards of one sweep in their order.
fn in_order(parts: Vec<RowFile>) -> Result<Vec<RowFile>, Failure> {
    let Some(first) = parts.first() else { return Ok(parts) };
    let count = first.origin.shard.count;
    let sweep_of = |part: &RowFile| {
        let SweepHeader { digest, points, shard, split, content, .. } = &part.origin;
        let shared = (digest.clone(), *points, shard.count, *split, *content);
        (shared, part.format, part.header.clone())
    };
    let (expected, first) = (sweep_of(first), first.name.clone());
    let mut by_shard: Vec<Option<RowFile>> = Vec::new();
    by_shard.resize_with(count, || None);
    for part in parts {
        let name = part.name.clone();
        if sweep_of(&part) != expected {
            let reason = "belongs to another sweep, or to one with other options, than";
            return Err(Failure::new(format_args!("{name}: {reason} {first}")));
        }
        let shard = part.origin.shard;
        if let Some(other) = by_shard[shard.index - 1].replace(part) {
            let other = other.name;
            return Err(Failure::new(format_args!("{name}: is shard {shard}, as is {other}")));
        }
    }
    if let Some(missing) = by_shard.iter().position(Option::is_none) {
        let shard = Shard { index: missing + 1, count };
        return Err(Failure::new(format_args!("shard {shard} is missing")));
    }
    Ok(by_shard.into_iter().flatten().collect())
}

/// The header of summaries that belongs to this header of costs.
fn summary_header(costs: &str) -> String {
    let Some((before, _)) = split_last_fields(costs.trim_end(), COST_COLUMNS.len()) else {
        return String::new();
    };
    let names: Vec<&str> = SUMMARY_COLUMNS.iter().map(|(name, _)| *name).collect();
    format!("{before},{}\n", names.join(","))
}

/// A row for each point, computed from the cost of each handshake in all shards.
fn summaries(parts: &[RowFile]) -> Result<Vec<String>, Failure> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    let mut places = vec![0; parts.len()];
    let mut rows = Vec::new();
    for point in 0..first.origin.points {
        let mut totals = Totals::default();
        let mut before = None;
        for (part, place) in parts.iter().zip(&mut places) {
            while let Some((_, row)) = part.rows.get(*place).filter(|(of, _)| *of == point) {
                *place += 1;
                let Some((of_point, cost)) = cost(row, part.format) else {
                    let name = &part.name;
                    return Err(Failure::new(format_args!(
                        "{name}: has a row that is no cost: {row}"
                    )));
                };
                before.get_or_insert(of_point);
                totals.add(&cost);
            }
        }
        let Some(before) = before else {
            return Err(Failure::new(format_args!("no shard has a run of point {point}")));
        };
        let row = summary_row(&[], &totals);
        let row = match first.format {
            RowFormat::Csv => Rows::csv_line(&row),
            RowFormat::Jsonl => Rows::new([], SUMMARY_COLUMNS).json_line(&row),
        };
        let row = row.context("a summary")?;
        rows.push(format!("{before},{}", row.strip_prefix('{').unwrap_or(&row)));
    }
    Ok(rows)
}

/// Splits a line of CSV before its last `fields` fields, none of which contains a comma.
fn split_last_fields(line: &str, fields: usize) -> Option<(&str, Vec<&str>)> {
    let at = line.rmatch_indices(',').nth(fields - 1)?.0;
    Some((line.get(..at)?, line.get(at + 1..)?.split(',').collect()))
}

/// The part of a row of costs before the cost, unchanged, and the cost.
fn cost(row: &str, format: RowFormat) -> Option<(&str, Cost)> {
    let (before, [duration, energy, datagrams, bytes]) = match format {
        RowFormat::Csv => {
            let (before, fields) = split_last_fields(row, COST_COLUMNS.len())?;
            let [_, fields @ ..] = <[&str; COST_COLUMNS.len()]>::try_from(fields).ok()?;
            (before, fields)
        }
        RowFormat::Jsonl => {
            // This cannot be inside a string, where the quotes would follow backslashes.
            let at = row.rfind(r#","seed":"#)?;
            let mut fields = row.get(at + 1..)?.strip_suffix('}')?.split(',');
            fields.next()?;
            let mut named = |place: usize| {
                let name: &str = COST_COLUMNS[place].0;
                let value = fields.next()?.strip_prefix(&format!("\"{name}\":"))?;
                Some(if value == "null" { "" } else { value })
            };
            (row.get(..at)?, [named(1)?, named(2)?, named(3)?, named(4)?])
        }
    };
    let duration = match duration {
        "" => None,
        micros => Some(Duration::from_micros(micros.parse().ok()?)),
    };
    let millijoules: f64 = energy.parse().ok()?;
    let (datagrams, bytes) = (datagrams.parse().ok()?, bytes.parse().ok()?);
    Some((before, Cost { duration, millijoules, datagrams, bytes }))
}

impl RowFile {
    fn read(name: String, text: &str) -> Result<Self, Failure> {
        let refuse = |reason: String| Err(Failure::new(format_args!("{name}: {reason}")));
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let Some((origin, format)) = SweepHeader::read(first) else {
            return refuse("was not written by lightseal lab sweep".into());
        };
        let (header, body) = match format {
            RowFormat::Csv => rest.split_at(rest.find('\n').map_or(rest.len(), |at| at + 1)),
            RowFormat::Jsonl => ("", rest),
        };
        // A row is complete only with the end of its line.
        let whole = body.matches('\n').count();
        let SweepHeader { shard, rows: expected, points, .. } = origin;
        if whole != expected || !(body.is_empty() || body.ends_with('\n')) {
            let rest =
                if body.is_empty() || body.ends_with('\n') { "" } else { " and a part of one" };
            return refuse(format!("has {whole} whole rows{rest} instead of {expected}"));
        }
        if hexadecimal(&Sha256::digest(rest)) != origin.rows_digest {
            return refuse("was changed: its rows are not those of the digest before them".into());
        }
        let mut rows: Vec<(usize, String)> = Vec::with_capacity(whole);
        for line in body.lines() {
            let Some(point) = point(line, format).filter(|p| *p < origin.points) else {
                return refuse(format!("has a row that belongs to no point of its sweep: {line}"));
            };
            rows.push((point, line.to_owned()));
        }
        // The rows must belong to all points of the shard, in order, and to no others.
        let mut seen: Vec<usize> = rows.iter().map(|(point, _)| *point).collect();
        seen.dedup();
        let is_right = match origin.split {
            Split::Points => seen.into_iter().eq((0..points).filter(|point| shard.has(*point))),
            // With few runs, a shard may have no run of some points.
            Split::Runs => seen.is_sorted(),
        };
        if !is_right {
            return refuse(format!("has other points than those of shard {shard}"));
        }
        Ok(Self { name, origin, format, header: header.to_owned(), rows })
    }
}

/// The number of the point to which a row belongs; it is in the first column.
fn point(line: &str, format: RowFormat) -> Option<usize> {
    let text = match format {
        RowFormat::Csv => line,
        RowFormat::Jsonl => line.strip_prefix(r#"{"point":"#)?,
    };
    text.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of rows, as a sweep writes it.
    fn file(origin: SweepHeader, format: RowFormat, rest: &str) -> String {
        let rows_digest = hexadecimal(&Sha256::digest(rest));
        SweepHeader { rows_digest, ..origin }.line(format) + rest
    }

    fn origin(index: usize, count: usize, content: RowContent, rows: usize) -> SweepHeader {
        SweepHeader {
            digest: "ab".into(),
            points: 3,
            shard: Shard { index, count },
            split: if content == RowContent::Costs { Split::Runs } else { Split::Points },
            content,
            rows,
            rows_digest: SweepHeader::NO_ROWS.into(),
        }
    }

    fn part(name: &str, index: usize, rows: &[(usize, &str)]) -> RowFile {
        let mut rest = String::from("point,x\n");
        rows.iter().for_each(|(point, x)| rest += &format!("{point},{x}\n"));
        let origin = origin(index, 2, RowContent::Summaries, rows.len());
        RowFile::read(name.into(), &file(origin, RowFormat::Csv, &rest)).unwrap()
    }

    #[test]
    fn shards_come_together_whatever_their_order() {
        let (a, b) = (part("a", 1, &[(0, "q"), (0, "r"), (2, "s")]), part("b", 2, &[(1, "t")]));
        let text = merged(vec![b, a]).unwrap();
        let whole = origin(1, 1, RowContent::Summaries, 4);
        assert_eq!(text, file(whole, RowFormat::Csv, "point,x\n0,q\n0,r\n1,t\n2,s\n"));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let a = || part("a", 1, &[(0, "q"), (2, "s")]);
        let b = || part("b", 2, &[(1, "t")]);
        let said = |parts: Vec<RowFile>| merged(parts).unwrap_err().to_string();
        assert_eq!(said(vec![a()]), "shard 2/2 is missing");
        assert_eq!(said(vec![a(), b(), a()]), "a: is shard 1/2, as is a");
        let mut other = b();
        other.origin.digest = "cd".into();
        assert!(said(vec![a(), other]).starts_with("b: belongs to another sweep"));
    }

    #[test]
    fn files_that_were_cut_are_refused_with_the_rows_that_are_whole() {
        let origin = SweepHeader { points: 2, ..origin(1, 1, RowContent::Summaries, 2) };
        let read = |rest: &str| {
            let text = file(origin.clone(), RowFormat::Csv, rest);
            RowFile::read("f".into(), &text).map(drop).map_err(|failure| failure.to_string())
        };
        assert_eq!(read("point,x\n0,a\n1,b\n"), Ok(()));
        let said = |whole: &str| Err(format!("f: has {whole} instead of 2"));
        assert_eq!(read("point,x\n0,a\n1,b"), said("1 whole rows and a part of one"));
        assert_eq!(read("point,x\n0,a\n"), said("1 whole rows"));
        assert_eq!(read("point,x\n"), said("0 whole rows"));
        assert_eq!(read(""), said("0 whole rows"));
        for wrong in ["0,a\n0,b\n", "1,b\n0,a\n", "0,a\n2,b\n", "0,a\nx\n"] {
            assert!(read(&format!("point,x\n{wrong}")).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn altered_values_are_refused() {
        let origin = SweepHeader { points: 1, ..origin(1, 1, RowContent::Summaries, 1) };
        let text = file(origin, RowFormat::Csv, "point,x\n0,1.25\n");
        assert!(RowFile::read("f".into(), &text).is_ok());
        for (from, to) in [("1.25", "1.26"), ("point,x", "point,y")] {
            let failure = RowFile::read("f".into(), &text.replace(from, to)).err().unwrap();
            assert!(failure.to_string().starts_with("f: was changed: "), "{failure}");
        }
    }

    #[test]
    fn what_stands_before_costs_is_kept_as_it_is() {
        let (before, found) = cost(r#"0,"a,""b""",17,,2.5,10,612"#, RowFormat::Csv).unwrap();
        assert_eq!(before, r#"0,"a,""b""""#);
        assert_eq!((found.duration, found.millijoules, found.bytes), (None, 2.5, 612));
        let row = r#"{"point":0,"x":",\"seed\":","seed":17,"duration_us":1500,"energy_mj":2.5,"datagrams":10,"bytes":612}"#;
        let (before, found) = cost(row, RowFormat::Jsonl).unwrap();
        assert_eq!(before, r#"{"point":0,"x":",\"seed\":""#);
        assert_eq!((found.duration, found.datagrams), (Some(Duration::from_micros(1500)), 10));
        for wrong in ["0,1,2,3,4", "0,1,x,2.5,10,612", ""] {
            assert!(cost(wrong, RowFormat::Csv).is_none(), "{wrong}");
        }
        assert!(cost(r#"{"point":0}"#, RowFormat::Jsonl).is_none());
    }
}
