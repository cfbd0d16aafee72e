//! Tables 3 and 4 of the LightMAC paper, from the output of `lightseal-lab mac bench --json`.

use super::stored::{StoredTable, rows};
use crate::figure::{Cell, FigureData, PaperItem, Table};
use crate::papers::LIGHTMAC;
use serde_json::Value;

const SET: &str = "lightmac-speed";

pub(super) const CIPHERS: StoredTable = StoredTable {
    name: "lightmac-table-3",
    title: "Ciphers alone, in cycles per byte",
    source: PaperItem { paper: LIGHTMAC, item: "Table 3" },
    about: "Each cipher on each kernel of the machine, one block after another and many at a time: \
            medians of core cycles per byte. The paper's own values, from a Core i7-6700 with \
            AVX2 and AES-NI, are missing in our copy.",
    set: SET,
    read: ciphers,
};

pub(super) const MACS: StoredTable = StoredTable {
    name: "lightmac-table-4",
    title: "LightMAC and the MACs it is compared with, in cycles per byte",
    source: PaperItem { paper: LIGHTMAC, item: "Table 4" },
    about: "Messages of the paper's lengths, one directly after another: medians of core cycles \
            for each byte, and the ratio of each other MAC's time to that of LightMAC with a \
            counter of a third of a block at 8 KiB. The paper's values are missing in our copy, \
            except that its LightMAC at rate 2/3 was about 50 % faster than PMAC with Parity over \
            PRESENT and 20 % over AES. docs/lightmac.md explains what differs here.",
    set: SET,
    read: macs,
};

/// The paper's message lengths in bytes, with the names and descriptions of their columns.
const LENGTHS: [(u64, &str, &str); 7] = [
    (128, "128_B", "cycles per byte, messages of 128 bytes"),
    (256, "256_B", "cycles per byte, messages of 256 bytes"),
    (512, "512_B", "cycles per byte, messages of 512 bytes"),
    (1024, "1_KiB", "cycles per byte, messages of 1024 bytes"),
    (2048, "2_KiB", "cycles per byte, messages of 2048 bytes"),
    (4096, "4_KiB", "cycles per byte, messages of 4096 bytes"),
    (8192, "8_KiB", "cycles per byte, messages of 8192 bytes"),
];

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or("?")
}

fn cycles(row: &Value) -> Cell {
    row.pointer("/cycles_per_byte/median").and_then(Value::as_f64).into()
}

fn ciphers(result: &Value) -> Option<FigureData> {
    let columns = [
        ("cipher", "cipher and key bits"),
        ("kernel", "the instructions that the kernel uses"),
        ("alone", "cycles per byte, one block after another"),
        ("batch", "cycles per byte, many blocks at a time"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for row in rows(result)?.iter().filter(|row| row["mac"] == "ecb") {
        let place = match text(row, "form") {
            "alone" => 2,
            "batch" => 3,
            _ => continue,
        };
        let key: [Cell; 2] = [text(row, "cipher").into(), text(row, "kernel").into()];
        line(&mut table, &key)[place] = cycles(row);
    }
    Some(FigureData::table(table))
}

fn macs(result: &Value) -> Option<FigureData> {
    let mut columns: Vec<(&str, &str)> = vec![
        ("cipher", "cipher and key bits"),
        ("kernel", "the instructions that the kernel uses"),
        ("mac", "the mode"),
        ("counter_bits", "LightMAC's s"),
    ];
    columns.extend(LENGTHS.map(|(_, name, about)| (name, about)));
    columns.push(("over_lightmac", "ratio of the time to LightMAC's, 8 KiB"));
    columns.push(("paper_over_lightmac", "that ratio in the paper's text"));
    let mut table = Table::new(&columns, Vec::new());
    const RIVALS: [&str; 3] = ["lightmac", "emac", "pmac-parity"];
    let measured = rows(result)?.iter().filter(|row| row["form"] == "back-to-back");
    for row in measured.filter(|row| RIVALS.contains(&text(row, "mac"))) {
        let Some(place) = LENGTHS.iter().position(|(bytes, ..)| row["bytes"] == *bytes) else {
            continue;
        };
        let (cipher, mac) = (text(row, "cipher"), text(row, "mac"));
        let counter = row["counter_bits"].as_u64().map_or(Cell::Missing, Cell::Integer);
        let line =
            line(&mut table, &[cipher.into(), text(row, "kernel").into(), mac.into(), counter]);
        line[4 + place] = cycles(row);
        if place + 1 == LENGTHS.len() {
            let over = row.pointer("/over_lightmac/median").and_then(Value::as_f64);
            let paper = match mac {
                "pmac-parity" if cipher.starts_with("present") => Some(1.5),
                "pmac-parity" if cipher.starts_with("aes") => Some(1.2),
                _ => None,
            };
            let [.., ours, theirs] = line.as_mut_slice() else { continue };
            (*ours, *theirs) = (over.into(), paper.into());
        }
    }
    Some(FigureData::table(table))
}

/// The row that begins with these cells. A new one is added if there is none.
fn line<'a>(table: &'a mut Table, key: &[Cell]) -> &'a mut Vec<Cell> {
    let found = table.rows.iter().position(|row| row.starts_with(key));
    let place = found.unwrap_or_else(|| {
        let mut row = key.to_vec();
        row.resize(table.columns.len(), Cell::Missing);
        table.rows.push(row);
        table.rows.len() - 1
    });
    &mut table.rows[place]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lengths_stand_beside_each_other_and_forms_apart() {
        let row = |mac: &str, form: &str, bytes: u64, cycles: f64| {
            json!({ "cipher": "present-80", "kernel": "avx2", "mac": mac, "form": form, "bytes": bytes,
                    "cycles_per_byte": { "median": cycles }, "over_lightmac": { "median": 1.4 } })
        };
        let result = json!({ "rows": [
            row("ecb", "alone", 8, 40.0),
            row("ecb", "batch", 8192, 1.25),
            row("pmac-parity", "back-to-back", 128, 9.0),
            row("pmac-parity", "back-to-back", 8192, 2.5),
            row("pmac-parity", "batch", 8192, 2.0),
            row("hmac-sha256", "back-to-back", 8192, 3.0),
        ]});
        let found = ciphers(&result).unwrap().table;
        let expected: Vec<Cell> =
            vec!["present-80".into(), "avx2".into(), 40.0.into(), 1.25.into()];
        assert_eq!(found.rows, [expected]);
        let found = macs(&result).unwrap().table;
        assert_eq!(found.rows.len(), 1);
        let at = |name| found.rows[0][found.column(name).unwrap()].as_f64();
        assert_eq!(
            ["128_B", "256_B", "8_KiB", "over_lightmac", "paper_over_lightmac"].map(at),
            [Some(9.0), None, Some(2.5), Some(1.4), Some(1.5)]
        );
    }
}
