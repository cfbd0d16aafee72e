//! Microseconds since the start, from the counter of the board's FPGA (Arm AN385, section 3.8).

use lightseal_core::Instant;

/// The registers of the FPGA's system control and I/O.
const FPGAIO: usize = 0x4002_8000;
/// A counter that goes up once in `PRESCALE` + 1 cycles.
const COUNTER: *mut u32 = (FPGAIO + 0x18) as *mut u32;
const PRESCALE: *mut u32 = (FPGAIO + 0x1c) as *mut u32;

/// The cycles of a microsecond: the FPGA's clock has 25 MHz, in QEMU too.
pub const CYCLES: u32 = 25;

/// The clock. It must be read at least once in 71 minutes, in which its counter wraps.
#[derive(Debug)]
pub struct Clock {
    last: u32,
    micros: u64,
}

impl Clock {
    /// Starts the clock at zero.
    pub fn start() -> Self {
        // SAFETY: the register is there on this board and has no other effect than to set the rate.
        unsafe { PRESCALE.write_volatile(CYCLES - 1) };
        Self { last: counter(), micros: 0 }
    }

    /// The time since the start.
    pub fn now(&mut self) -> Instant {
        let counted = counter();
        self.micros += u64::from(counted.wrapping_sub(self.last));
        self.last = counted;
        Instant::from_micros(self.micros)
    }
}

fn counter() -> u32 {
    // SAFETY: the register is there on this board, and reading it has no effect.
    unsafe { COUNTER.read_volatile() }
}
