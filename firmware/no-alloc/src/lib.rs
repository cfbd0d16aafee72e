//! What images without an allocator share: they would not link if one of the crates that they call
//! allocated.
#![no_std]

pub mod member;
#[path = "../../footprint/src/memory.rs"]
mod memory;
pub mod register;

use cortex_m_semihosting::debug;

/// Ends the emulator. Its exit code is 0 if everything went well, and 1 otherwise.
pub fn end(succeeded: bool) -> ! {
    loop {
        debug::exit(if succeeded { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    end(false)
}

/// A panic is an undefined instruction where panics abort at once.
#[cortex_m_rt::exception]
// SAFETY: cortex-m-rt wants this handler declared unsafe. It does not return to the faulty code.
unsafe fn HardFault(_: &cortex_m_rt::ExceptionFrame) -> ! {
    end(false)
}
