//! The notation in which a claim says what it reads of the JSON that a program prints.
//!
//! - A **path** names values: `ratio/median`, `seconds/0`. Brackets behind a list choose its
//!   elements: `rows[]` are all of them, `rows[scheme=sealed]` those whose field has this value.
//!   Other comparisons are `!=`, `<=` and `>=`; an element must satisfy every bracket.
//! - An **expression** has numbers, paths, and ` + `, ` - `, ` * `, ` / ` between spaces, with the
//!   usual precedence. `#path` is the number of values other than null that a path names, `+path`
//!   their sum, and `|a - b|` an absolute value.
//! - A **condition** compares two expressions by `==`, `!=`, `<=`, `>=`, `<` or `>`.
//! - A **template** is text with expressions in braces, with a format if wanted: `{median:.3}`,
//!   `{a / b:+.1}`. A path may also name text.

use crate::Failure;
use serde_json::Value;

/// The values that `path` names.
pub(super) fn select<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let step = |found: Vec<&'a Value>, segment: &str| {
        let mut brackets = segment.split('[');
        let name = brackets.next().unwrap_or_default();
        let named = found.into_iter().filter_map(|value| match name {
            "" => Some(value),
            _ => value.pointer(&format!("/{name}")),
        });
        let conditions: Vec<_> = brackets.map(|text| text.trim_end_matches(']')).collect();
        if conditions.is_empty() {
            return named.collect();
        }
        let elements = named.filter_map(Value::as_array).flatten();
        elements.filter(|element| conditions.iter().all(|c| chosen(element, c))).collect()
    };
    path.split('/').fold(vec![value], step)
}

/// Whether the element of a list satisfies the condition in a bracket.
fn chosen(element: &Value, condition: &str) -> bool {
    let compared = ["<=", ">=", "!=", "="]
        .into_iter()
        .find_map(|sign| condition.split_once(sign).map(|(field, wanted)| (field, sign, wanted)));
    let Some((field, sign, wanted)) = compared else { return condition.is_empty() };
    let found = &element[field];
    let ordered = |holds: fn(&f64, &f64) -> bool| {
        found
            .as_f64()
            .zip(wanted.parse().ok())
            .is_some_and(|(found, wanted)| holds(&found, &wanted))
    };
    let is_equal = match wanted {
        "null" => found.is_null(),
        _ => ordered(f64::eq) || shown(found) == wanted,
    };
    match sign {
        "<=" => ordered(f64::le),
        ">=" => ordered(f64::ge),
        "!=" => !is_equal,
        _ => is_equal,
    }
}

/// The value of an expression.
pub(super) fn number(value: &Value, expression: &str) -> Result<f64, Failure> {
    let (mut sum, mut product, mut sign) = (0.0, None, "+");
    let inner = expression.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    for (place, word) in words(inner.unwrap_or(expression)).into_iter().enumerate() {
        if place % 2 == 1 {
            sign = word;
            continue;
        }
        let operand = operand(value, word)?;
        product = Some(match (sign, product) {
            ("*", Some(product)) => product * operand,
            ("/", Some(product)) => product / operand,
            ("-", before) => {
                sum += before.unwrap_or(0.0);
                -operand
            }
            ("+", before) => {
                sum += before.unwrap_or(0.0);
                operand
            }
            _ => return Err(Failure::Failed(format!("`{expression}` is no expression"))),
        });
    }
    let result: f64 = sum + product.unwrap_or(f64::NAN);
    Ok(if inner.is_some() { result.abs() } else { result })
}

/// The words of an expression. A space in brackets separates none.
fn words(expression: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ' ' && depth == 0
    };
    expression.split(split).collect()
}

fn operand(value: &Value, word: &str) -> Result<f64, Failure> {
    if let Ok(literal) = word.parse() {
        return Ok(literal);
    }
    if let Some(path) = word.strip_prefix('#') {
        return Ok(select(value, path).iter().filter(|found| !found.is_null()).count() as f64);
    }
    if let Some(path) = word.strip_prefix('+') {
        return select(value, path).into_iter().map(|one| number(one, "")).sum();
    }
    let none = || Failure::Failed(format!("there is no number at {word}"));
    the_one(value, word).and_then(Value::as_f64).ok_or_else(none)
}

/// The value at `path`, if the path names just one.
pub(super) fn the_one<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let found = select(value, path);
    (found.len() == 1).then(|| found[0])
}

/// Whether a condition holds.
pub(super) fn holds(value: &Value, condition: &str) -> Result<bool, Failure> {
    let words = words(condition);
    let is_comparison = |word: &&str| ["==", "!=", "<=", ">=", "<", ">"].contains(word);
    let place = words.iter().position(is_comparison);
    let place = place.ok_or_else(|| Failure::Failed(format!("`{condition}` is no condition")))?;
    let [left, right] = [&words[..place], &words[place + 1..]].map(|side| side.join(" "));
    let (left, right) = (number(value, &left)?, number(value, &right)?);
    Ok(match words[place] {
        "==" => left == right,
        "!=" => left != right,
        "<=" => left <= right,
        ">=" => left >= right,
        "<" => left < right,
        _ => left > right,
    })
}

/// The text of a template.
pub(super) fn fill(value: &Value, template: &str) -> Result<String, Failure> {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, after) = part.split_once('}').unwrap_or((part, ""));
        text += &filled(value, inner)?;
        text += after;
    }
    Ok(text)
}

/// The text for one pair of braces.
fn filled(value: &Value, inner: &str) -> Result<String, Failure> {
    let format = inner.rsplit_once(':').filter(|(_, format)| format.contains('.'));
    let decimals = format.and_then(|(_, format)| format.rsplit_once('.')?.1.parse().ok());
    let Some(((expression, format), decimals)) = format.zip(decimals) else {
        return match the_one(value, inner) {
            Some(found) => Ok(shown(found)),
            None => number(value, inner).map(|number| number.to_string()),
        };
    };
    let number = number(value, expression)?;
    let decimals: usize = decimals;
    Ok(match format.starts_with('+') {
        true => format!("{number:+.decimals$}"),
        false => format!("{number:.decimals$}"),
    })
}

/// A value as a reader wants to see it: text without quotes, whole numbers without a point.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".into(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or(f64::NAN).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed() -> Value {
        json!({
            "ratio": { "median": 1.5 }, "kills": 3, "seconds": [1, 2, 4.0], "name": "x", "seed": u64::MAX, "none": null,
            "rows": [
                { "scheme": "agg:8", "bytes": 16, "of": "DTLS Uni-Uni", "ok": true },
                { "scheme": "agg:8", "bytes": 64, "of": "DTLS Mul-Uni", "ok": false, "parts": [1, 2] },
                { "scheme": "off", "bytes": 64, "of": "DTLS Uni-Uni", "ok": true },
            ],
        })
    }

    #[test]
    fn paths_choose_elements_by_their_fields() {
        let count = |path| select(&printed(), path).len();
        assert_eq!(count("rows[]"), 3);
        assert_eq!(count("rows[scheme=agg:8]"), 2);
        assert_eq!(count("rows[scheme=agg:8][bytes=64]"), 1);
        assert_eq!(count("rows[scheme=agg:8]/parts[]"), 2);
        assert_eq!(count("rows[of=DTLS Uni-Uni][ok=true]"), 2);
        assert_eq!(count("rows[scheme!=off][bytes<=63]"), 1);
        assert_eq!(count("rows[bytes>=16]"), 3);
        assert_eq!(count("rows[other=1]"), 0);
        assert_eq!(count("rows[parts=null]"), 2);
        assert_eq!(count("rows[parts!=null]"), 1);
        assert_eq!(count("other[]"), 0);
    }

    #[test]
    fn expressions_have_the_usual_precedence() {
        let of = |expression| number(&printed(), expression).ok();
        assert_eq!(of("ratio/median"), Some(1.5));
        assert_eq!(of("1 + 2 * kills - kills / 2"), Some(5.5));
        assert_eq!(of("|1 - kills|"), Some(2.0));
        assert_eq!(of("#seconds[] - seconds/2"), Some(-1.0));
        assert_eq!(of("1 + +seconds[]"), Some(8.0));
        assert_eq!(of("#none + #other + #name"), Some(1.0));
        let ratio = "rows[scheme=agg:8][of=DTLS Mul-Uni]/bytes / rows[bytes=16]/bytes";
        assert_eq!(of(ratio), Some(4.0));
        for wrong in ["name", "none", "1 kills 2", "rows[]/bytes", "+rows[]", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn conditions_compare_expressions() {
        let of = |condition| holds(&printed(), condition).ok();
        assert_eq!(of("kills == #seconds[]"), Some(true));
        assert_eq!(of("kills + 1 <= 3"), Some(false));
        assert_eq!(of("#rows[of=DTLS Uni-Uni] >= 1"), Some(true));
        assert_eq!(of("kills"), None);
        assert_eq!(of("none > 1"), None);
    }

    #[test]
    fn templates_show_numbers_and_text() {
        let of = |template| fill(&printed(), template).ok();
        let text = "x: 3 of 4, 1.50 (+50.0 %), [1,2,4.0], agg:8 18446744073709551615";
        let template = "{name}: {kills} of {kills + 1}, {ratio/median:.2} \
                        ({100 * ratio/median - 100:+.1} %), {seconds}, {rows[bytes=16]/scheme} {seed}";
        assert_eq!(of(template).as_deref(), Some(text));
        assert_eq!(of("{none}").as_deref(), Some("?"));
        assert_eq!(of("{other}"), None);
    }
}
