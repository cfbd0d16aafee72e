//! The processor's tick, an interrupt in each millisecond.

use crate::clock::CYCLES;
use core::cell::Cell;
use cortex_m::interrupt::{self, Mutex};
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;

/// What is called in each tick.
type Action = Option<fn()>;

static ACTION: Mutex<Cell<Action>> = Mutex::new(Cell::new(None));

/// Starts the tick, which ends [`wfi`](cortex_m::asm::wfi), and calls `action` in each, in the
/// interrupt. Only the first call of a program has an effect.
pub fn start(action: Option<fn()>) {
    let Some(mut core) = cortex_m::Peripherals::take() else { return };
    interrupt::free(|section| ACTION.borrow(section).set(action));
    let tick = &mut core.SYST;
    tick.set_clock_source(SystClkSource::Core);
    tick.set_reload(CYCLES * 1000 - 1);
    tick.clear_current();
    tick.enable_interrupt();
    tick.enable_counter();
}

#[exception]
fn SysTick() {
    if let Some(action) = interrupt::free(|section| ACTION.borrow(section).get()) {
        action();
    }
}
