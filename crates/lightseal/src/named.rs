//! Values of the engines by the names that they have on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads one of `values` by its name or alias, in upper or lower case if the argument ignores case.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    values: impl IntoIterator<Item = (impl Into<PossibleValue>, T)>,
) -> impl TypedValueParser<Value = T> {
    let values = values.into_iter().map(|(name, value)| (name.into(), value));
    let values: Vec<(PossibleValue, T)> = values.collect();
    let names: Vec<_> = values.iter().map(|(name, _)| name.clone()).collect();
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = values.iter().find(|(name, _)| name.matches(&text, true));
        found.map(|(_, value)| value.clone()).ok_or("not a known name")
    })
}

/// A name and its description in the help.
pub(crate) fn name(name: &'static str, help: &'static str) -> PossibleValue {
    PossibleValue::new(name).help(help)
}
