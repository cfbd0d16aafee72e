//! The durations that the paper on duty-cycled networks expects of handshakes, by formula.

use crate::links::tsch::SLOT_MICROS;

/// Number of frames in a handshake, as the paper counts them.
pub const FRAMES: u32 = 10;

/// Number of slotframes that a handshake takes with one cell in each direction: one for each of
/// three round trips, and one for each of four frames that queue behind others of their flight.
const SLOTFRAMES: f64 = 7.0;

const SLOT_SECONDS: f64 = SLOT_MICROS as f64 / 1e6;

/// Duration of a handshake over TSCH in seconds, by the paper's equations (1) and (2). A slotframe
/// has `slotframe` timeslots, of which `cells` are cells in each direction. There are `hops` equal
/// hops with this packet delivery ratio.
pub fn tsch_seconds(slotframe: u64, cells: u64, hops: u16, delivery: f64) -> f64 {
    let slots = (1.0 + slotframe as f64 / (cells as f64 + 1.0)) / delivery;
    f64::from(FRAMES) * f64::from(hops) * slots * SLOT_SECONDS
}

/// Duration of a handshake over TSCH in seconds without loss, when the frames of a flight queue and
/// answers wait for a cell in the opposite direction.
pub fn queued_tsch_seconds(slotframe: u64, cells: u64) -> f64 {
    SLOTFRAMES * slotframe as f64 / cells as f64 * SLOT_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's Tables I and II.
    #[test]
    fn the_papers_tables_follow_from_its_equations() {
        let near =
            |value: f64, paper: f64| assert!((value - paper).abs() < 5e-4, "{value} {paper}");
        for (slotframe, row) in [(101, [5.15, 3.467, 2.625]), (1001, [50.15, 33.467, 25.125])] {
            for (cells, paper) in (1..).zip(row) {
                near(tsch_seconds(slotframe, cells, 1, 1.0), paper);
            }
        }
        for (slotframe, row) in [(101, [10.3, 15.45, 20.6]), (1001, [100.3, 150.45, 200.6])] {
            for (hops, paper) in (2..).zip(row) {
                near(tsch_seconds(slotframe, 1, hops, 1.0), paper);
            }
        }
        near(tsch_seconds(101, 1, 1, 0.5), 10.3);
        near(queued_tsch_seconds(101, 1), 7.07);
    }
}
