//! embassy's time, from the board's clock and tick.

use alloc::vec::Vec;
use board::{Clock, tick};
use core::cell::RefCell;
use core::task::Waker;
use cortex_m::interrupt::{self, Mutex};
use embassy_time_driver::Driver;
use lightseal_core::Instant;

/// The clock, and when tasks are to be woken. Both are there once the time has been started.
struct BoardTime {
    clock: Mutex<RefCell<Option<Clock>>>,
    due: Mutex<RefCell<Vec<(u64, Waker)>>>,
}

embassy_time_driver::time_driver_impl!(static TIME: BoardTime = BoardTime {
    clock: Mutex::new(RefCell::new(None)),
    due: Mutex::new(RefCell::new(Vec::new())),
});

impl Driver for BoardTime {
    fn now(&self) -> u64 {
        interrupt::free(|section| {
            let mut clock = self.clock.borrow(section).borrow_mut();
            clock.as_mut().map_or(0, |clock| clock.now().as_micros())
        })
    }

    /// The waker is woken in the first tick at this time or later.
    fn schedule_wake(&self, at: u64, waker: &Waker) {
        interrupt::free(|section| {
            let mut due = self.due.borrow(section).borrow_mut();
            match due.iter_mut().find(|(_, other)| other.will_wake(waker)) {
                Some((other, _)) => *other = at.min(*other),
                None => due.push((at, waker.clone())),
            }
        });
    }
}

/// Starts the clock and the tick.
pub(crate) fn start() {
    interrupt::free(|section| *TIME.clock.borrow(section).borrow_mut() = Some(Clock::start()));
    tick::start(Some(wake));
}

/// The time since the start.
pub(crate) fn now() -> Instant {
    Instant::from_micros(TIME.now())
}

/// Wakes the tasks whose time has come.
fn wake() {
    let now = TIME.now();
    interrupt::free(|section| {
        TIME.due.borrow(section).borrow_mut().retain(|(at, waker)| {
            let is_early = now < *at;
            if !is_early {
                waker.wake_by_ref();
            }
            is_early
        });
    });
}
