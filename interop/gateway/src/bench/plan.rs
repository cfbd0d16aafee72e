//! What is measured, and in which order.

use super::results::{Measure, Results, RowResult};
use super::{echo, stream, tcp};
use crate::Failure;
use crate::interrupt::Interrupt;
use crate::rows::{Ground, Row};
use crate::site::Mtu;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Frames a second of a paced stream: fewer than any row carries.
const PACED: u32 = 15_000;

/// In one turn no row's round trips of one size take longer, however slow it is.
const LONGEST_PINGS: Duration = Duration::from_secs(4);

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Times that every row has its turn.
    pub turns: usize,
    /// Round trips of [`Plan::ping_bytes`] in a turn; 0 for none.
    pub pings: usize,
    /// Bytes of the frames of the table's round trips.
    pub ping_bytes: usize,
    /// Bytes of frames whose rate is measured.
    pub rates: Vec<usize>,
    /// How long a flood is counted.
    pub flood: Duration,
    /// Bytes of frames whose cost is measured.
    pub costs: Vec<usize>,
    /// How long such a stream lasts.
    pub paced: Duration,
    /// Seconds of TCP in a turn, and of TCP without MACsec where that gets through; 0 for none.
    pub tcp_seconds: u32,
    /// Our own program, whose MACsec endpoints TCP is measured between.
    pub lightseal: PathBuf,
    /// Bytes of frames for the figure of round trips, over an underlay that is as narrow as the
    /// LAN.
    pub sweep: Vec<usize>,
    /// Round trips of each of these in a turn.
    pub sweep_pings: usize,
}

impl Plan {
    /// Everything, to be had in some minutes, with this program of ours.
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

    /// As many pings as the paper's table has, or a few more, and more of the figure's.
    #[must_use]
    pub fn full(self) -> Self {
        let turns = self.turns.max(1);
        Self { pings: 65_535_usize.div_ceil(turns), sweep_pings: 400, ..self }
    }

    /// A look at whether it works at all.
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
    /// order. Tells `progress` where it is.
    ///
    /// # Errors
    /// When a row cannot be built, or we are interrupted. A measurement that fails in a row that
    /// was built is noted with the results.
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

    /// What the table and its neighbours are made of.
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
            // Where next to nothing arrives, what the rest took says nothing of a frame.
            if cost.lost < 0.5 {
                result.note(Measure::Processor(bytes), cost.total_us);
                result.note(Measure::Programs(bytes), cost.programs_us);
            }
            result.note(Measure::Lost(bytes), cost.lost);
            // Counted, and not measured: once is enough.
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

    /// What the figure of round trips by frame size is made of.
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

/// Who comes when in a turn of so many. Each row stands as early as late over all turns, so that a
/// machine that becomes slower is slower for all alike, and its neighbours change sides, since what
/// runs before may leave a cache or a clock in another state.
fn order(rows: usize, turn: usize, turns: usize) -> Vec<usize> {
    let first = rows * turn / turns.max(1);
    let mut order: Vec<usize> = (0..rows).map(|place| (place + first) % rows).collect();
    if turn % 2 == 1 {
        order.reverse();
    }
    order
}

/// What a row does in one turn.
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

    /// The time at which each row has its turn, on average, if all take as long.
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
