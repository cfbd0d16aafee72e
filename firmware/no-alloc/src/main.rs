//! The crates that need no allocator, in an image that has none: it would not link if one of them
//! allocated. The image calls each of them, and its exit code is 0 if they answer what they should.
#![no_std]
#![no_main]

mod aggregation;
mod ciphers;
mod engines;
mod group;

use cortex_m_semihosting::debug;

#[cortex_m_rt::entry]
fn main() -> ! {
    end(ciphers::work() && aggregation::work() && engines::work() && group::work())
}

/// Ends the emulator. Its exit code is 0 if everything went well, and 1 otherwise.
fn end(succeeded: bool) -> ! {
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
