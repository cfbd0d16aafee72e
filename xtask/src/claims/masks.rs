//! The claim on what record number masks reveal.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "mask-repetition",
    about: "Number of 1-byte messages under Agg(16) after which an observer has seen two records \
        with one record number mask with probability 1/2. Bar: the 274 reported by Wagner et \
        al.",
    bar: Bar::AtLeast(274.0),
    seconds: 20,
    measure,
}];

/// The figure is that of the strong form with one-byte record numbers: the best of our forms, with
/// the length of record numbers that reveals more.
fn measure() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["masks"])?;
    let mut detail = String::from(
        "messages until half of all epochs had two short records that look the same and so have the \
         same mask\n",
    );
    let mut figure = None;
    for row in result["rows"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let count = |name| number(row, &format!("/{name}"));
        let (masks, bytes) = (row["masks"].as_str().unwrap_or("?"), count("number_bytes")?);
        if count("mistaken")? > 0.0 {
            return Err(Unmeasured::Broken(format!("{masks}: records look alike by chance")));
        }
        let half = match number(row, "/half") {
            Ok(half) => format!(
                "{half} (95 %: {} to {})",
                number(row, "/interval/0")?,
                number(row, "/interval/1")?
            ),
            Err(_) => format!("none in {}", count("messages")?),
        };
        detail += &format!(
            "{masks}, numbers of {bytes} B, {} epochs: {half}; alike but for the number field: the \
             same mask in {} of {} pairs, of all pairs in 1 of {:.1}\n",
            count("epochs")?,
            count("alike_same")?,
            count("alike")?,
            count("pairs")? / count("pairs_same")?,
        );
        if (masks, bytes) == ("strong", 1.0) {
            figure = Some(number(row, "/half")?);
        }
    }
    let figure = figure.ok_or_else(|| Unmeasured::Broken("there is no strong form".into()))?;
    Ok(Measured { figure, detail })
}
