//! The claim on the size of the sources.

use super::prelude::*;
use crate::lines::Table;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of lines by which Rust became less since the restructuring began, without examples \
            and checks of packages. Bar: our own target"
            .claim("lines-fewer", AtLeast(5000.0), Seconds(1))
            .by(|| {
                let table = Table::new()?;
                Ok(Measured { figure: table.fewer() as f64, detail: table.text() })
            }),
    ]
}
