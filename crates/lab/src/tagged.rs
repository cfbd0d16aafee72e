//! Settings on one line: a name followed by fields and their values.

use serde::de::DeserializeOwned;

/// Parses `name,field=value,..` as the variant with this name.
///
/// # Errors
///
/// A description of the error in one line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut parts = text.split(',');
    let mut table = toml::Table::new();
    let name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (field, value) = part.split_once('=').ok_or_else(|| format!("{part} has no ="))?;
        table.insert(field.trim().into(), value_of(value.trim()));
    }
    let variant = toml::Table::from_iter([(name, table.into())]);
    variant.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
}

/// A number or a boolean if the text is one, and otherwise the text.
fn value_of(text: &str) -> toml::Value {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    if let Ok(number) = text.parse::<f64>() {
        return number.into();
    }
    text.parse::<bool>().map_or_else(|_| text.into(), Into::into)
}
