//! What ends a program that cannot continue.

use crate::console;
use core::panic::PanicInfo;
use cortex_m_rt::{ExceptionFrame, exception};

/// A fault of the processor. A panic is one too where panics abort at once, by an undefined
/// instruction.
#[exception]
// SAFETY: cortex-m-rt wants this handler declared unsafe. It does not return to the faulty code.
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    console::print(format_args!(
        "fault at {:#010x}, called from {:#010x}\n",
        frame.pc(),
        frame.lr()
    ));
    console::exit(false)
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    console::print(format_args!("{info}\n"));
    console::exit(false)
}
