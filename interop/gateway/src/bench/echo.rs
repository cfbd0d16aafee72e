//! Round trips: a frame is sent, its answer comes back, then the next frame is sent.

use crate::Failure;
use crate::frames::{FLOWS, Side, packet_number};
use crate::interrupt::Interrupt;
use crate::rows::Ground;
use crate::site::LAN;
use crate::station::Station;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A frame counts as lost if its answer is not back after this time.
const LOST: Duration = Duration::from_millis(250);
/// How often the answering host checks whether the measurement is over.
const LOOK: Duration = Duration::from_millis(50);
/// Number of round trips that are not counted, while addresses and flows are learnt.
const WARM_UP: usize = 2 * FLOWS;

/// The round trips of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    /// The duration of each answered round trip in microseconds, in the order of sending.
    pub us: Vec<f64>,
    /// Number of frames without an answer.
    pub lost: usize,
}

impl Echoes {
    /// The mean and the mean deviation in microseconds. As in `ping`, the mean deviation is the
    /// root of the mean square of the deviations. `None` if no frame was answered.
    pub fn mean_and_mdev(&self) -> Option<(f64, f64)> {
        if self.us.is_empty() {
            return None;
        }
        let count = self.us.len() as f64;
        let mean = self.us.iter().sum::<f64>() / count;
        let square = self.us.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / count;
        Some((mean, square.sqrt()))
    }

    /// The median in microseconds. `None` if no frame was answered.
    pub fn median(&self) -> Option<f64> {
        (!self.us.is_empty()).then(|| lightseal_measure::Spread::of(self.us.clone()).median)
    }

    /// The 95th percentile in microseconds. `None` if no frame was answered.
    pub fn percentile_95(&self) -> Option<f64> {
        let mut us = self.us.clone();
        us.sort_unstable_by(f64::total_cmp);
        us.get((us.len() * 95).div_ceil(100).checked_sub(1)?).copied()
    }
}

/// Sends `count` frames of `frame_bytes` from host A, each when the answer to the previous one has
/// arrived or is lost. Sends fewer if that takes longer than `longest`. Host B answers each frame
/// with the addresses swapped and a packet number of its own.
///
/// # Errors
/// A port cannot be used, or the run was interrupted.
pub fn echoes(
    ground: &mut Ground,
    frame_bytes: usize,
    count: usize,
    longest: Duration,
    interrupt: &Interrupt,
) -> Result<Echoes, Failure> {
    let done = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    let site = &mut ground.site;
    let (there, back) = (&mut site.there, &mut site.back);
    let (host_a, host_b) = (&site.host_a, &site.host_b);
    let answer = || -> Result<(), Failure> {
        let mut station = Station::open(LAN)?;
        ready.store(true, Ordering::Release);
        let mut came = Vec::new();
        let mut frame = Vec::new();
        while !done.load(Ordering::Acquire) {
            station.receive(LOOK, |bytes| {
                if let Some(flow) = asked(bytes) {
                    came.push((flow, bytes.len()));
                }
            })?;
            for (flow, bytes) in came.drain(..) {
                back[flow].next_into(&mut frame, bytes);
                station.send(std::iter::once(&frame[..]))?;
            }
        }
        Ok(())
    };
    let ask = || -> Result<Echoes, Failure> {
        let mut station = Station::open(LAN)?;
        let mut echoes = Echoes::default();
        let mut frame = Vec::new();
        let began = Instant::now();
        for number in 0..count + WARM_UP {
            interrupt.check()?;
            if number > WARM_UP && began.elapsed() > longest {
                break;
            }
            let flow = number % FLOWS;
            there[flow].next_into(&mut frame, frame_bytes);
            let started = Instant::now();
            station.send(std::iter::once(&frame[..]))?;
            let mut is_back = false;
            while !is_back && started.elapsed() < LOST {
                station.receive(LOST, |bytes| is_back |= answered(bytes, flow, frame_bytes))?;
            }
            let us = started.elapsed().as_nanos() as f64 / 1000.0;
            match (number >= WARM_UP, is_back) {
                (true, true) => echoes.us.push(us),
                (true, false) => echoes.lost += 1,
                (false, _) => {}
            }
        }
        Ok(echoes)
    };
    thread::scope(|scope| {
        let answering = scope.spawn(|| host_b.within(answer));
        while !ready.load(Ordering::Acquire) && !answering.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let echoes = host_a.within(ask);
        done.store(true, Ordering::Release);
        match answering.join() {
            Ok(answered) => answered??,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        echoes?
    })
}

/// The flow of a frame that was sent by host A, else `None`.
fn asked(frame: &[u8]) -> Option<usize> {
    packet_number(frame)?;
    let flow = crate::frames::flow_number(frame)?;
    (flow < FLOWS && frame[10] == Side::A as u8).then_some(flow)
}

/// Whether a frame is host B's answer in this flow, with this length and an unchanged payload.
fn answered(frame: &[u8], flow: usize, frame_bytes: usize) -> bool {
    packet_number(frame).is_some()
        && frame.len() == frame_bytes
        && frame[10] == Side::B as u8
        && crate::frames::flow_number(frame) == Some(flow)
        && frame[28..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Flow;

    #[test]
    fn the_deviation_is_that_of_ping() {
        let echoes = Echoes { us: vec![1.0, 3.0, 1.0, 3.0], lost: 1 };
        assert_eq!(echoes.mean_and_mdev(), Some((2.0, 1.0)));
        assert_eq!(echoes.median(), Some(1.0));
        assert_eq!(Echoes::default().mean_and_mdev(), None);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let of = |count: u32| {
            let us = (1..=count).rev().map(f64::from).collect();
            Echoes { us, lost: 0 }.percentile_95()
        };
        assert_eq!([1, 19, 20, 21, 100].map(of), [1.0, 19.0, 19.0, 20.0, 95.0].map(Some));
        assert_eq!(of(0), None);
    }

    #[test]
    fn only_the_right_answer_is_one() {
        let mut frame = Vec::new();
        Flow::new(Side::B, 2).next_into(&mut frame, 96);
        assert!(answered(&frame, 2, 96));
        assert!(!answered(&frame, 3, 96) && !answered(&frame, 2, 97));
        assert_eq!(asked(&frame), None);
        frame[95] = 1;
        assert!(!answered(&frame, 2, 96));
        Flow::new(Side::A, 2).next_into(&mut frame, 96);
        assert_eq!(asked(&frame), Some(2));
        assert!(!answered(&frame, 2, 96));
    }
}
