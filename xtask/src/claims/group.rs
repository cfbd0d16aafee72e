//! Groups: what their members never do.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "group-histories",
    about: "in 1 000 random histories of joins, leaves, evictions, rekeys, restarts and loss: records opened \
            by who left or was not there yet, delivered twice, or numbers used twice",
    bar: Bar::AtMost(0.0),
    seconds: 60,
    measure: histories,
}];

fn histories() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["histories"])?;
    let count = |name| number(&result, &format!("/{name}"));
    let mut detail = format!(
        "{} histories in both profiles: {} epochs, {} records sealed, {} delivered, {} restarts, \
         {} members gone\n",
        count("histories")?,
        count("epochs")?,
        count("sealed")?,
        count("delivered")?,
        count("restarts")?,
        count("gone")?,
    );
    if count("histories")? < 1000.0 || count("delivered")? < 1000.0 {
        return Err(Unmeasured::Broken("too little happened".into()));
    }
    let violations = result["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    for violation in violations.iter().take(20) {
        detail += &format!("seed {}: {}\n", violation["seed"], violation["what"]);
    }
    Ok(Measured { figure: violations.len() as f64, detail })
}
