//! Streams of frames from host A to host B: how many arrive, and the processor time of each.

use crate::Failure;
use crate::daemon::{processes_named, processor_time};
use crate::frames::{FLOWS, Flow};
use crate::namespace::Namespace;
use crate::rows::Ground;
use crate::site::{LAN, WAN, counted_here};
use crate::station::Station;
use lightseal_packet_io::BATCH;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a flood runs before it is counted, so that queues are full.
const FILL: Duration = Duration::from_millis(150);
/// The pause between two batches of a paced stream.
const PACE: Duration = Duration::from_millis(1);
/// How long frames that are under way may take to arrive.
const SETTLE: Duration = Duration::from_millis(100);

/// Rates of a flood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flood {
    /// Frames a second that host A's interface accepted.
    pub offered: f64,
    /// Frames a second that arrived at host B's interface.
    pub arrived: f64,
}

/// Sends frames of `frame_bytes`, all flows in turn, as fast as host A's interface accepts them,
/// and counts for `duration` the frames that host B's interface receives.
///
/// # Errors
/// A port cannot be used.
pub fn flood(
    ground: &mut Ground,
    frame_bytes: usize,
    duration: Duration,
) -> Result<Flood, Failure> {
    let done = AtomicBool::new(false);
    let site = &mut ground.site;
    let there = &mut site.there;
    let (host_a, host_b) = (&site.host_a, &site.host_b);
    let generate = || -> Result<(u64, Duration), Failure> {
        let mut station = Station::open(LAN)?;
        let mut source = Source::new(there, frame_bytes);
        let started = Instant::now();
        let mut sent = 0;
        while !done.load(Ordering::Relaxed) {
            sent += source.send(&mut station, BATCH)?;
        }
        Ok((sent, started.elapsed()))
    };
    let count = || -> Option<f64> {
        thread::sleep(FILL);
        let (before, started) = (counted_here(LAN)?, Instant::now());
        thread::sleep(duration);
        let (after, elapsed) = (counted_here(LAN)?, started.elapsed());
        Some(arrived(after.since(before).received, elapsed))
    };
    thread::scope(|scope| {
        let generating = scope.spawn(|| host_a.within(generate));
        let counted = host_b.within(count);
        done.store(true, Ordering::Relaxed);
        let (sent, elapsed) = match generating.join() {
            Ok(generated) => generated??,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let counted = counted?.ok_or_else(|| Failure::Broken("no counters of host B".into()))?;
        Ok(Flood { offered: arrived(sent, elapsed), arrived: counted })
    })
}

fn arrived(frames: u64, elapsed: Duration) -> f64 {
    frames as f64 / elapsed.as_secs_f64()
}

/// Processor time of a frame on its way from host A to host B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Processor time of everything involved in the stream, in microseconds for each frame that
    /// arrived: this process (its system time includes the kernel's work for a frame when it is
    /// sent), the gateways' programs, and the kernel's soft interrupt threads. It includes the cost
    /// of sending alone; subtract the value of a cable to get the rest.
    pub total_us: f64,
    /// User and system time of the gateways' programs, in microseconds for each frame that arrived.
    pub programs_us: f64,
    /// The share of the sent frames that did not arrive, 0 to 1.
    pub lost: f64,
}

/// Sends `per_second` frames of `frame_bytes` for `duration`, at a rate that every row carries,
/// and measures the processor time.
///
/// # Errors
/// A port cannot be used, or no frame arrives.
pub fn cost(
    ground: &mut Ground,
    frame_bytes: usize,
    per_second: u32,
    duration: Duration,
) -> Result<Cost, Failure> {
    let programs: Vec<u32> = ground.programs.iter().map(crate::daemon::Daemon::id).collect();
    let site = &mut ground.site;
    let there = &mut site.there;
    let (host_a, host_b) = (&site.host_a, &site.host_b);
    let counted = || {
        host_b
            .within(|| counted_here(LAN))?
            .ok_or_else(|| Failure::Broken("no counters of host B".into()))
    };
    let before = counted()?;
    let (sent, spent) = host_a.within(|| -> Result<_, Failure> {
        let mut station = Station::open(LAN)?;
        let mut source = Source::new(there, frame_bytes);
        let before = Spent::now(&programs);
        let started = Instant::now();
        let mut sent = 0u64;
        while started.elapsed() < duration {
            let due = (started.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
            while sent < due {
                let some = usize::try_from(due - sent).unwrap_or(BATCH).min(BATCH);
                // A frame that the interface does not accept is not repeated: it counts as lost.
                source.send(&mut station, some)?;
                sent += some as u64;
            }
            thread::sleep(PACE);
        }
        thread::sleep(SETTLE);
        Ok((sent, Spent::now(&programs).since(before)))
    })??;
    let came = counted()?.since(before).received;
    if came == 0 {
        return Err(Failure::Broken("no frame arrives".into()));
    }
    let each = |amount: f64| amount / came as f64;
    Ok(Cost {
        total_us: each((spent.own + spent.programs + spent.kernel).as_secs_f64() * 1e6),
        programs_us: each(spent.programs.as_secs_f64() * 1e6),
        lost: 1.0 - came as f64 / sent as f64,
    })
}

/// The outer packets that carry a frame between the gateways, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnTheWire {
    /// Bytes that gateway A sends, outer Ethernet header included, without frame check sequences.
    pub bytes: f64,
    /// Number of packets.
    pub packets: f64,
}

/// Sends a few frames of `frame_bytes`, slowly enough that none should be lost, and counts the
/// bytes and packets that gateway A sends for each. `None` if the row has no underlay.
///
/// # Errors
/// Frames are lost in each of three tries.
pub fn on_the_wire(ground: &mut Ground, frame_bytes: usize) -> Result<Option<OnTheWire>, Failure> {
    const FRAMES: u64 = 100;
    const TRIES: u32 = 3;
    if !ground.has_underlay {
        return Ok(None);
    }
    let site = &mut ground.site;
    let there = &mut site.there;
    let (host_a, host_b, gateway) = (&site.host_a, &site.host_b, &site.gateway_a);
    let count = |place: &Namespace, interface| {
        place
            .within(|| counted_here(interface))?
            .ok_or_else(|| Failure::Broken(format!("no counters of {interface}")))
    };
    for _ in 0..TRIES {
        let (arrived_before, before) = (count(host_b, LAN)?, count(gateway, WAN)?);
        host_a.within(|| -> Result<(), Failure> {
            let mut station = Station::open(LAN)?;
            let mut source = Source::new(there, frame_bytes);
            for _ in 0..FRAMES {
                source.send(&mut station, 1)?;
                thread::sleep(PACE);
            }
            thread::sleep(SETTLE);
            Ok(())
        })??;
        let came = count(host_b, LAN)?.since(arrived_before).received;
        let wire = count(gateway, WAN)?.since(before);
        if came == FRAMES {
            let each = |amount: u64| amount as f64 / FRAMES as f64;
            return Ok(Some(OnTheWire { bytes: each(wire.sent_bytes), packets: each(wire.sent) }));
        }
    }
    Err(Failure::Broken(format!("of {FRAMES} frames, a millisecond apart, some are lost")))
}

/// Processor time since the start of each process.
#[derive(Clone, Copy)]
struct Spent {
    own: Duration,
    programs: Duration,
    kernel: Duration,
}

impl Spent {
    fn now(programs: &[u32]) -> Self {
        let own = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
        let kernel = processes_named("ksoftirqd/");
        Self {
            own: own.expect("it counts up from zero"),
            programs: programs.iter().copied().map(processor_time).sum(),
            kernel: kernel.into_iter().map(processor_time).sum(),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            own: self.own.saturating_sub(earlier.own),
            programs: self.programs.saturating_sub(earlier.programs),
            kernel: self.kernel.saturating_sub(earlier.kernel),
        }
    }
}

/// Makes and sends the next frames of all flows in turn.
struct Source<'a> {
    flows: &'a mut [Flow],
    frames: Vec<Vec<u8>>,
    frame_bytes: usize,
    next: usize,
}

impl<'a> Source<'a> {
    fn new(flows: &'a mut [Flow], frame_bytes: usize) -> Self {
        Self { flows, frames: vec![Vec::new(); BATCH], frame_bytes, next: 0 }
    }

    /// Sends `count` frames, at most [`BATCH`]. Returns how many the interface accepted.
    fn send(&mut self, station: &mut Station, count: usize) -> Result<u64, Failure> {
        for frame in &mut self.frames[..count] {
            self.flows[self.next].next_into(frame, self.frame_bytes);
            self.next = (self.next + 1) % FLOWS;
        }
        station.send(self.frames[..count].iter().map(Vec::as_slice)).map(|sent| sent as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_spent_is_counted_for_a_process_and_its_ended_threads() {
        let before = Spent::now(&[]);
        let busy = || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(5) {}
        };
        thread::spawn(busy).join().unwrap();
        let spent = Spent::now(&[]).since(before);
        assert!(spent.own > Duration::ZERO && spent.programs == Duration::ZERO);
    }
}
