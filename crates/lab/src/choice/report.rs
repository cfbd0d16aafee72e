//! A whole fit, and the files that it writes.

use super::SimulationParameters;
use super::channel::{BURSTY, ORDINARY};
use super::fit::{Fitted, fit};
use super::survey::{Sample, survey};
use crate::figure::{Cell, Table};
use crate::{Error, write::csv};
use ::lightseal_aggregation::choice::boundary::{Boundary, shipped_boundaries};
use ::lightseal_aggregation::choice::{Family, MEMBERS};
use std::path::{Path, PathBuf};

/// A fit, and the samples it was made from.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The parameters of the simulation.
    pub parameters: SimulationParameters,
    /// The samples that the boundaries are fitted to.
    pub samples: Vec<Sample>,
    /// The boundaries of each family in [`Family::ALL`], between each member and the next.
    pub boundaries: [[Fitted; MEMBERS - 1]; 2],
    /// How well the boundaries of each family in [`Family::ALL`] choose: first on the channels that
    /// they are fitted to, then on bursty channels, a tenth as many.
    pub qualities: [[BoundaryQuality; 2]; 2],
}

/// How well boundaries choose a member when the loss rate is known.
#[derive(Clone, Copy, Debug)]
pub struct BoundaryQuality {
    /// The share of channels on which the boundaries choose the best member, from 0 to 1.
    pub right: f64,
    /// The mean ratio of the chosen member's goodput to that of the best member.
    pub goodput: f64,
}

impl Fit {
    /// Simulates the channels of the plan and fits the boundaries.
    pub fn new(parameters: SimulationParameters) -> Self {
        let samples = survey(&parameters, &ORDINARY);
        let stress = survey(
            &SimulationParameters { channels: parameters.channels / 10, ..parameters.clone() },
            &BURSTY,
        );
        let boundaries = Family::ALL.map(|family| fit(&parameters, &samples, family));
        let qualities = Family::ALL.map(|family| {
            let curves = boundaries[family as usize].each_ref().map(|f| f.curve.in_integers());
            [&samples, &stress].map(|samples| quality(samples, family, &curves))
        });
        Self { parameters, samples, boundaries, qualities }
    }

    /// The largest difference between the boundaries that ship and these, over all payload lengths
    /// of the plan, as a loss rate in 1/65536. Rounding alone can cause a difference of 1.
    pub fn difference(&self) -> u32 {
        let pairs = Family::ALL.into_iter().flat_map(|family| {
            self.boundaries[family as usize].iter().zip(shipped_boundaries(family))
        });
        let lengths = self.parameters.payload_bytes.clone();
        let worst = pairs.map(|(fitted, shipped)| {
            let fitted = fitted.curve.in_integers();
            let apart = |x| fitted.loss(x).abs_diff(shipped.loss(x));
            lengths.clone().map(apart).max().unwrap_or(0)
        });
        worst.max().unwrap_or(0)
    }

    /// Writes the samples (`choice.csv`) and the boundaries (`choice-boundaries.csv`). Figure 4 of
    /// the paper draws both.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let failed = |path: &Path, error| Error::Io { path: path.into(), error };
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        let files = vec![
            ("choice.csv".to_owned(), csv::render(&self.sample_table())?),
            ("choice-boundaries.csv".to_owned(), csv::render(&self.boundary_table())?),
        ];
        let write = |(name, text): (String, String)| {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
            Ok(path)
        };
        files.into_iter().map(write).collect()
    }

    fn sample_table(&self) -> Table {
        const COLUMNS: [(&str, &str); 6] = [
            ("channel", "number of the channel: with the seed it determines the channel"),
            ("payload_bytes", "payload of each record"),
            ("loss", "share of packets lost"),
            ("burst_packets", "mean number of packets lost in a row"),
            ("best_agg", "the member of Agg with the most goodput"),
            ("best_r2d2", "the member of R2D2 with the most goodput"),
        ];
        const GOODPUTS: [(&str, Family, usize); 9] = [
            ("goodput_off", Family::Agg, 4),
            ("goodput_agg_2", Family::Agg, 3),
            ("goodput_agg_4", Family::Agg, 2),
            ("goodput_agg_8", Family::Agg, 1),
            ("goodput_agg_16", Family::Agg, 0),
            ("goodput_r2d2_50", Family::R2d2, 0),
            ("goodput_r2d2_100", Family::R2d2, 1),
            ("goodput_r2d2_150", Family::R2d2, 2),
            ("goodput_r2d2_200", Family::R2d2, 3),
        ];
        let goodputs = GOODPUTS.map(|(name, ..)| (name, "verified payload divided by bytes sent"));
        let columns: Vec<_> = COLUMNS.into_iter().chain(goodputs).collect();
        let row = |sample: &Sample| {
            let best = Family::ALL.map(|family| family.members()[sample.best(family)].to_string());
            let goodputs =
                GOODPUTS.map(|(_, family, member)| sample.goodput[family as usize][member]);
            let head: [Cell; 6] = [
                Cell::Integer(sample.channel as u64),
                u32::from(sample.payload_bytes).into(),
                sample.loss.into(),
                sample.burst.into(),
                best[0].as_str().into(),
                best[1].as_str().into(),
            ];
            head.into_iter().chain(goodputs.map(Cell::from)).collect()
        };
        Table::new(&columns, self.samples.iter().map(row).collect())
    }

    fn boundary_table(&self) -> Table {
        let columns = [
            ("below", "the better member at a lower loss rate"),
            ("above", "the better member at a higher loss rate"),
            ("payload_bytes", "payload of each record"),
            (
                "loss_nearest",
                "loss rate between them, by nearest neighbours; empty if not in range",
            ),
            ("loss_fitted", "loss rate between them, by the fitted curve"),
        ];
        let mut rows = Vec::new();
        for family in Family::ALL {
            let members = family.members().map(|member| member.to_string());
            for (boundary, fitted) in self.boundaries[family as usize].iter().enumerate() {
                for x in self.parameters.payload_bytes.clone().map(f64::from) {
                    let point = fitted.points.iter().find(|point| point.0 == x);
                    rows.push(vec![
                        members[boundary].as_str().into(),
                        members[boundary + 1].as_str().into(),
                        Cell::Integer(x as u64),
                        point.map(|point| point.1).into(),
                        fitted.curve.at(x).into(),
                    ]);
                }
            }
        }
        Table::new(&columns, rows)
    }
}

fn quality(
    samples: &[Sample],
    family: Family,
    curves: &[Boundary; MEMBERS - 1],
) -> BoundaryQuality {
    let (mut right, mut goodput) = (0, 0.0);
    for sample in samples {
        let loss = (65_536.0 * sample.loss) as u32;
        let chosen = curves.iter().position(|curve| loss < curve.loss(sample.payload_bytes));
        let chosen = chosen.unwrap_or(MEMBERS - 1);
        let all = &sample.goodput[family as usize];
        right += usize::from(chosen == sample.best(family));
        goodput += all[chosen] / all[sample.best(family)];
    }
    let count = samples.len().max(1) as f64;
    BoundaryQuality { right: right as f64 / count, goodput: goodput / count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> SimulationParameters {
        SimulationParameters { channels: 1200, packets: 1500, ..SimulationParameters::default() }
    }

    #[test]
    fn a_short_fit_is_near_the_shipped_one_and_repeats() {
        let fit = Fit::new(parameters());
        for family in Family::ALL {
            for (fitted, shipped) in
                fit.boundaries[family as usize].iter().zip(shipped_boundaries(family))
            {
                for x in [10, 20, 40] {
                    let ratio =
                        fitted.curve.at(f64::from(x)) * 65_536.0 / f64::from(shipped.loss(x));
                    assert!((0.6..1.6).contains(&ratio), "{family:?} {shipped:?} at {x}: {ratio}");
                }
            }
            let [ordinary, bursty] = fit.qualities[family as usize];
            assert!(ordinary.goodput > 0.98 && bursty.goodput < ordinary.goodput, "{ordinary:?}");
        }
        let again = Fit::new(parameters());
        assert_eq!(
            csv::render(&fit.boundary_table()).unwrap(),
            csv::render(&again.boundary_table()).unwrap()
        );
    }
}
