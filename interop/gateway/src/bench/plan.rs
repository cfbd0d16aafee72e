//! The plan of a benchmark: what is measured, and in which order.

use super::results::{Measure, Results, RowResult};
use super::{echo, stream, tcp};
use crate::Failure;
use crate::interrupt::Interrupt;
use crate::rows::{Ground, Row};
use crate::site::Mtu;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Frames a second of a paced stream, a rate that every row carries.
const PACED: u32 = 15_000;

/// How long the round trips of one frame size may take in one turn of a row, however slow it is.
const LONGEST_PINGS: Duration = Duration::from_secs(4);

/// What is measured, how often and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of turns of every row.
    pub turns: usize,
    /// Round trips in a turn with frames of [`Plan::ping_bytes`]; 0 for none.
    pub pings: usize,
    /// Bytes of a frame for the round trips of the table.
    pub ping_bytes: usize,
    /// Bytes of the frames whose rate is measured.
    pub rates: Vec<usize>,
    /// How long the frames of a flood are counted.
    pub flood: Duration,
    /// Bytes of the frames whose cost in processor time is measured.
    pub costs: Vec<usize>,
    /// Duration of the paced stream for which that cost is measured.
    pub paced: Duration,
    /// Seconds of TCP in a turn, with MACsec and, if the row carries it, without; 0 for none.
    pub tcp_seconds: u32,
    /// The program `lightseal`. TCP is measured between its MACsec endpoints.
    pub lightseal: PathBuf,
    /// Bytes of the frames for the figure of round trips. The underlay then has the MTU of the LAN.
    pub sweep: Vec<usize>,
    /// Round trips in a turn for each frame length of `sweep`.
    pub sweep_pings: usize,
}

impl Plan {
    /// The usual plan, which takes some minutes. `lightseal` is the path of our program.
    pub fn usual(lightseal: &Path) -> Self {
        Self {
            turns: 5,
            pings: 1000,
            ping_bytes: 64,
            rates: vec![96, 1400],
            flood: Duration::from_millis(600),
            costs: vec![96, 1400],
            paced: Duration::from_millis(800),
            tcp_seconds: 2,
            lightseal: lightseal.into(),
            sweep: vec![64, 128, 256, 512, 768, 1024, 1280, 1360, 1400, 1440, 1464, 1480, 1514],
            sweep_pings: 100,
        }
    }

    /// The plan with at least as many pings as the paper's table (65 535), and more for the figure.
    #[must_use]
    pub fn full(self) -> Self {
        let turns = self.turns.max(1);
        Self { pings: 65_535_usize.div_ceil(turns), sweep_pings: 400, ..self }
    }

    /// A short plan that only shows whether everything works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            turns: 1,
            pings: 100,
            flood: Duration::from_millis(200),
            paced: Duration::from_millis(300),
            tcp_seconds: 1,
            sweep: vec![64, 512, 1400, 1514],
            sweep_pings: 20,
            ..self
        }
    }

    /// Measures `rows` in turns: in each turn every row does everything once, in another
    /// order. Calls `progress` with a line before each step.
    ///
    /// # Errors
    /// A row cannot be built, or the run was interrupted. If a measurement fails in a row that was
    /// built, the failure is noted in the results.
    pub fn measure(
        &self,
        rows: &[Box<dyn Row>],
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Results, Failure> {
        let started = Instant::now();
        let mut results: Vec<_> = rows.iter().map(|row| RowResult::of(row.as_ref())).collect();
        let wants_roomy = self.pings > 0
            || self.tcp_seconds > 0
            || !(self.rates.is_empty() && self.costs.is_empty());
        if wants_roomy {
            let grounds = build(rows, Mtu::ROOMY, interrupt, progress)?;
            self.in_turns(grounds, &mut results, interrupt, progress, Self::table)?;
        }
        if !self.sweep.is_empty() {
            let grounds = build(rows, Mtu::TIGHT, interrupt, progress)?;
            self.in_turns(grounds, &mut results, interrupt, progress, Self::round_trips)?;
        }
        Ok(Results { rows: results, turns: self.turns, seconds: started.elapsed().as_secs_f64() })
    }

    fn in_turns(
        &self,
        mut grounds: Vec<Ground>,
        results: &mut [RowResult],
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(&str),
        measure: OneTurn,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        for turn in 0..self.turns {
            for who in order(grounds.len(), turn, self.turns) {
                let (ground, result) = (&mut grounds[who], &mut results[who]);
                progress(&format!(
                    "turn {} of {}, {} ({:.0} s so far)",
                    turn + 1,
                    self.turns,
                    result.name,
                    started.elapsed().as_secs_f64()
                ));
                match measure(self, ground, result, interrupt) {
                    Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                    Err(why) => result.failures.push(why.to_string()),
                    Ok(()) => {}
                }
                interrupt.check()?;
                ground.runs().map_err(|why| Failure::broken(result.name, why))?;
            }
        }
        Ok(())
    }

    /// Measures one turn for the two tables: round trips, rates, cost and TCP.
    fn table(
        &self,
        ground: &mut Ground,
        result: &mut RowResult,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        if self.pings > 0 {
            let echoes =
                echo::echoes(ground, self.ping_bytes, self.pings, LONGEST_PINGS, interrupt)?;
            if let Some(median) = echoes.median() {
                result.note(Measure::RoundTrip, median);
            }
            result.pings.us.extend(echoes.us);
            result.pings.lost += echoes.lost;
        }
        for bytes in self.rates.iter().copied() {
            interrupt.check()?;
            let flood = stream::flood(ground, bytes, self.flood)?;
            result.note(Measure::Offered(bytes), flood.offered);
            result.note(Measure::Rate(bytes), flood.arrived);
        }
        for bytes in self.costs.iter().copied() {
            interrupt.check()?;
            let cost = stream::cost(ground, bytes, PACED, self.paced)?;
            // If hardly any frame arrives, the processor time of the others says nothing about a
            // frame.
            if cost.lost < 0.5 {
                result.note(Measure::Processor(bytes), cost.total_us);
                result.note(Measure::Programs(bytes), cost.programs_us);
            }
            result.note(Measure::Lost(bytes), cost.lost);
            // Bytes on the wire are counted exactly, so that one turn is enough.
            if result.has(Measure::WireBytes(bytes)) {
                continue;
            }
            if let Some(wire) = stream::on_the_wire(ground, bytes)? {
                result.note(Measure::WireBytes(bytes), wire.bytes);
                result.note(Measure::WirePackets(bytes), wire.packets);
            }
        }
        if self.tcp_seconds > 0 {
            interrupt.check()?;
            let rate = tcp::protected(ground, &self.lightseal, self.tcp_seconds)?;
            result.note(Measure::Tcp, rate);
            if result.carries_plain {
                interrupt.check()?;
                result.note(Measure::PlainTcp, tcp::plain(ground, self.tcp_seconds)?);
            }
        }
        Ok(())
    }

    /// Measures one turn for the figure of round trips by frame size.
    fn round_trips(
        &self,
        ground: &mut Ground,
        result: &mut RowResult,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        for bytes in self.sweep.iter().copied() {
            let echoes = echo::echoes(ground, bytes, self.sweep_pings, LONGEST_PINGS, interrupt)?;
            let so_far = result.sweep.entry(bytes).or_default();
            so_far.us.extend(echoes.us);
            so_far.lost += echoes.lost;
        }
        Ok(())
    }
}

/// The order of the rows in a turn. Over all turns each row has the same average place, so that a
/// machine that slows down affects all rows equally. A row's predecessor changes from turn to turn,
/// since whatever ran before may leave caches or clock rates in another state.
fn order(rows: usize, turn: usize, turns: usize) -> Vec<usize> {
    let first = rows * turn / turns.max(1);
    let mut order: Vec<usize> = (0..rows).map(|place| (place + first) % rows).collect();
    if turn % 2 == 1 {
        order.reverse();
    }
    order
}

/// A function that measures a row in one turn.
type OneTurn = fn(&Plan, &mut Ground, &mut RowResult, &Interrupt) -> Result<(), Failure>;

fn build(
    rows: &[Box<dyn Row>],
    mtu: Mtu,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Ground>, Failure> {
    let mut grounds = Vec::new();
    for row in rows {
        interrupt.check()?;
        progress(&format!("building {}, {} bytes between the gateways", row.name(), mtu.underlay));
        grounds.push(row.build(mtu)?);
    }
    Ok(grounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_pings_as_often_as_the_paper() {
        for turns in [1, 5, 7] {
            let plan = Plan { turns, ..Plan::usual(Path::new("x")) }.full();
            let pings = plan.pings * plan.turns;
            assert!((65_535..65_535 + turns).contains(&pings), "{pings}");
        }
    }

    /// The average time at which each row has its turn, if all turns take equally long.
    fn average_times(rows: usize, turns: usize) -> Vec<f64> {
        let mut times = vec![0.0; rows];
        for turn in 0..turns {
            let order = order(rows, turn, turns);
            for (place, row) in order.into_iter().enumerate() {
                times[row] += (turn * rows + place) as f64 / turns as f64;
            }
        }
        times
    }

    #[test]
    fn what_becomes_slower_does_so_for_all_alike() {
        for (rows, turns) in [(15, 5), (15, 4), (15, 10), (7, 5), (2, 6)] {
            let times = average_times(rows, turns);
            let all = (rows * turns) as f64;
            let middle = (all - 1.0) / 2.0;
            for (row, time) in times.iter().enumerate() {
                let off = (time - middle).abs() / all;
                assert!(off < 0.05, "{rows} rows, {turns} turns: row {row} by {off:.3}");
            }
        }
        let neighbours = |turn| {
            let order = order(15, turn, 5);
            order.iter().position(|row| *row == 7) < order.iter().position(|row| *row == 8)
        };
        assert!(neighbours(0) != neighbours(1));
    }

    #[test]
    fn frames_fit_the_lan() {
        let plan = Plan::usual(Path::new("x"));
        let longest = Mtu::ROOMY.lan as usize + 14;
        for bytes in plan.rates.iter().chain(&plan.costs).chain(&plan.sweep) {
            assert!((crate::frames::SHORTEST..=longest).contains(bytes), "{bytes}");
        }
    }
}
