//! What a claim reads in the JSON of one or several runs: lines for a reader, what must hold for
//! the run to show anything, and the figure.

use super::claim::{Measure, Measured};
use super::expression::{fill, holds, number, select};
use crate::Failure;
use crate::program::{LongTest, Run};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

type Text = Cow<'static, str>;

/// Where the JSON comes from.
#[derive(Clone)]
pub(super) struct Source(Arc<dyn Fn() -> Result<Value, Failure> + Send + Sync>);

impl From<Run> for Source {
    fn from(run: Run) -> Self {
        Self(Arc::new(move || run.json()))
    }
}

impl From<LongTest> for Source {
    fn from(test: LongTest) -> Self {
        Self(Arc::new(move || test.run()))
    }
}

impl<Made: Fn() -> Result<Value, Failure> + Send + Sync + 'static> From<Made> for Source {
    fn from(made: Made) -> Self {
        Self(Arc::new(made))
    }
}

/// Several runs one after the other, each with fields that describe it. The JSON is an object with
/// the list `runs`, in which the field `found` of each element is what the run printed.
pub(super) fn series<S: Into<Source>>(runs: impl IntoIterator<Item = (Value, S)>) -> Source {
    let runs: Vec<(Value, Source)> =
        runs.into_iter().map(|(fields, source)| (fields, source.into())).collect();
    Source::from(move || {
        let element = |(fields, source): &(Value, Source)| {
            let mut element = fields.clone();
            element["found"] = source.0()?;
            Ok(element)
        };
        Ok(json!({ "runs": runs.iter().map(element).collect::<Result<Vec<_>, Failure>>()? }))
    })
}

/// Two runs one after the other. The JSON is an object with what each printed, by name.
pub(super) fn pair<A: Into<Source>, B: Into<Source>>(a: (&str, A), b: (&str, B)) -> Source {
    let (names, first, second) = ([a.0.to_owned(), b.0.to_owned()], a.1.into(), b.1.into());
    Source::from(move || Ok(json!({ &*names[0]: first.0()?, &*names[1]: second.0()? })))
}

/// A measurement whose figure is read in JSON. Texts are in the notation of [`super::expression`].
#[derive(Clone)]
pub(super) struct Reading {
    source: Source,
    /// What is done in this order before the figure is read.
    steps: Vec<Step>,
    figure: Figure,
}

#[derive(Clone)]
enum Step {
    /// A condition without which this machine cannot measure, with the reason for a reader.
    Possible(Text, Text),
    /// A condition without which the run shows nothing, for every element that a path names.
    Needed(Text, Text),
    /// A template that is filled for every element that a path names.
    Lines(Text, Text),
    /// A function that makes lines.
    Made(fn(&Value) -> Result<String, Failure>),
}

/// How many elements of a list get a line at most, such as failures of a run that went wrong.
const MOST_LINES: usize = 100;

#[derive(Clone)]
struct Figure {
    reducer: Reducer,
    /// The path of the elements that count.
    rows: Text,
    /// The expressions, separated by commas, that are evaluated for each element.
    values: Text,
}

/// Reads the JSON of `source`.
pub(super) fn read(source: impl Into<Source>) -> Reading {
    let figure = Figure { reducer: only, rows: "".into(), values: "".into() };
    Reading { source: source.into(), steps: Vec::new(), figure }
}

impl Reading {
    /// Says `reason` where this machine cannot measure: where `condition` does not hold.
    pub(super) fn possible_if(self, condition: impl Into<Text>, reason: impl Into<Text>) -> Self {
        self.step(Step::Possible(condition.into(), reason.into()))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a line to the detail.
    pub(super) fn line(self, template: impl Into<Text>) -> Self {
        self.each("", template)
    }

    /// Adds a line to the detail for each element that `rows` names.
    pub(super) fn each(self, rows: impl Into<Text>, template: impl Into<Text>) -> Self {
        self.step(Step::Lines(rows.into(), template.into()))
    }

    /// Adds lines that a function makes.
    pub(super) fn lines(self, made: fn(&Value) -> Result<String, Failure>) -> Self {
        self.step(Step::Made(made))
    }

    /// There is no figure unless `condition` holds.
    pub(super) fn needs(self, condition: impl Into<Text>) -> Self {
        self.needs_each("", condition)
    }

    /// There is no figure unless `condition` holds for each element that `rows` names.
    pub(super) fn needs_each(self, rows: impl Into<Text>, condition: impl Into<Text>) -> Self {
        self.step(Step::Needed(rows.into(), condition.into()))
    }

    /// The figure is the value of an expression.
    pub(super) fn figure(self, expression: impl Into<Text>) -> Self {
        self.reduced(only, "", expression)
    }

    /// The figure is what `reducer` makes of the `values` of each element that `rows` names.
    pub(super) fn reduced(
        mut self,
        reducer: Reducer,
        rows: impl Into<Text>,
        values: impl Into<Text>,
    ) -> Self {
        self.figure = Figure { reducer, rows: rows.into(), values: values.into() };
        self
    }

    /// The figure and the detail for what was printed.
    pub(super) fn judge(&self, printed: &Value) -> Result<Measured, Failure> {
        let mut lines: Vec<String> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Possible(condition, reason) => {
                    if !holds(printed, condition)? {
                        return Err(Failure::NotPossibleHere(fill(printed, reason)?));
                    }
                }
                Step::Needed(rows, condition) => {
                    for row in select(printed, rows) {
                        if !holds(row, condition)? {
                            lines.push(format!("not the case: {condition} {rows}"));
                            return Err(Failure::Failed(lines.join("\n")));
                        }
                    }
                }
                Step::Lines(rows, template) => {
                    for row in select(printed, rows).into_iter().take(MOST_LINES) {
                        lines.push(fill(row, template)?);
                    }
                }
                Step::Made(made) => lines.push(made(printed)?.trim_end().to_owned()),
            }
        }
        let detail = lines.join("\n");
        Ok(Measured { figure: self.figure.of(printed)?, detail })
    }
}

impl Measure for Reading {
    fn measure(&self) -> Result<Measured, Failure> {
        self.judge(&self.source.0()?)
    }
}

impl Figure {
    fn of(&self, printed: &Value) -> Result<f64, Failure> {
        let Self { reducer, rows, values } = self;
        let of_row = |row| values.split(", ").map(|value| number(row, value)).collect();
        let found: Vec<Vec<f64>> =
            select(printed, rows).into_iter().map(of_row).collect::<Result<_, _>>()?;
        if found.is_empty() {
            return Err(Failure::Failed(format!("there is nothing at {rows}")));
        }
        Ok(reducer(&found))
    }
}

/// Makes one figure of the values of one or several elements.
pub(super) type Reducer = fn(&[Vec<f64>]) -> f64;

/// The value of the one element there is. Several give no number.
pub(super) fn only(rows: &[Vec<f64>]) -> f64 {
    match rows {
        [values] if values.len() == 1 => values[0],
        _ => f64::NAN,
    }
}

pub(super) fn least(rows: &[Vec<f64>]) -> f64 {
    rows.iter().flatten().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn greatest(rows: &[Vec<f64>]) -> f64 {
    rows.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn sum(rows: &[Vec<f64>]) -> f64 {
    rows.iter().flatten().sum()
}

/// The middle value, or the upper one of two.
pub(super) fn median(rows: &[Vec<f64>]) -> f64 {
    let mut values: Vec<f64> = rows.iter().flatten().copied().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The sum of the first value of each element over that of the second, in percent.
pub(super) fn percentage(rows: &[Vec<f64>]) -> f64 {
    let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>();
    100.0 * sum(0) / sum(1)
}

/// The number of elements with a value above 1.
pub(super) fn above_one(rows: &[Vec<f64>]) -> f64 {
    rows.iter().filter(|values| values.iter().any(|value| *value > 1.0)).count() as f64
}

/// The coefficient of determination (R²): the squared correlation of two values.
pub(super) fn r_squared(rows: &[Vec<f64>]) -> f64 {
    let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
    let means = [mean(0), mean(1)];
    let product = |a: usize, b: usize| {
        rows.iter().map(|row| (row[a] - means[a]) * (row[b] - means[b])).sum::<f64>()
    };
    product(0, 1).powi(2) / (product(0, 0) * product(1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Result<Value, Failure> {
        Err(Failure::Failed("never called".into()))
    }

    #[test]
    fn reducers_give_what_their_names_say() {
        let rows = [vec![1.0, 2.0], vec![2.0, 4.0], vec![4.0, 8.0]];
        let all = [least, greatest, sum, median, percentage, r_squared].map(|of| of(&rows));
        assert_eq!(all, [1.0, 8.0, 21.0, 4.0, 50.0, 1.0]);
        assert!(only(&rows).is_nan());
        assert_eq!(only(&[vec![3.0]]), 3.0);
        assert_eq!(above_one(&rows), 3.0);
        assert_eq!(median(&[vec![3.0], vec![1.0], vec![2.0]]), 2.0);
        let uncorrelated = [vec![1.0, 1.0], vec![2.0, 3.0], vec![3.0, 1.0]];
        assert_eq!(r_squared(&uncorrelated), 0.0);
    }

    #[test]
    fn a_figure_comes_with_its_lines() {
        let rows = json!([{ "name": "a", "lost": 1 }, { "name": "b", "lost": 5 }]);
        let printed = json!({ "sent": 7, "rows": rows });
        let reading = read(never)
            .line("{sent} sent")
            .each("rows[]", "{name}: {lost} lost")
            .reduced(greatest, "rows[]", "lost");
        let measured = reading.judge(&printed).unwrap();
        assert_eq!(measured.figure, 5.0);
        assert_eq!(measured.detail, "7 sent\na: 1 lost\nb: 5 lost");
        assert_eq!(reading.figure("sent").judge(&printed).unwrap().figure, 7.0);
    }

    #[test]
    fn a_run_that_shows_nothing_has_no_figure() {
        let printed = json!({ "sent": 7, "rows": [{ "lost": 1 }], "kernel": "slow" });
        let reading = read(never).figure("sent");
        let failed = |reading: Reading| matches!(reading.judge(&printed), Err(Failure::Failed(_)));
        assert!(!failed(reading.clone().needs("sent >= 7").needs_each("rows[]", "lost == 1")));
        assert!(failed(reading.clone().needs("sent > 7")));
        assert!(failed(reading.clone().needs_each("rows[]", "lost == 0")));
        assert!(failed(reading.clone().reduced(least, "none[]", "lost")));
        assert!(failed(reading.clone().figure("none")));
        let elsewhere = reading.possible_if("sent > 7", "only {kernel} kernels").judge(&printed);
        let Err(Failure::NotPossibleHere(reason)) = elsewhere else { panic!("it was measured") };
        assert_eq!(reason, "only slow kernels");
    }

    #[test]
    fn runs_in_a_series_are_told_apart() {
        let run = |lost: u32| move || Ok(json!({ "lost": lost }));
        let all = series([(json!({ "join": "a" }), run(1)), (json!({ "join": "b" }), run(2))]);
        let reading = read(all).each("runs[]", "{join}: {found/lost}");
        let measured = reading.reduced(sum, "runs[]", "found/lost").measure().unwrap();
        assert_eq!((measured.figure, measured.detail.as_str()), (3.0, "a: 1\nb: 2"));
    }
}
