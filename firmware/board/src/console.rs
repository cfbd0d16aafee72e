//! Text, the command line and the exit code, over semihosting (Arm IHI 0067, "Semihosting").

use alloc::string::String;
use core::fmt;
use core::fmt::Write as _;
use cortex_m_semihosting::{debug, hio, nr, syscall};

/// The longest command line in bytes; QEMU cuts no command line, but fails if it is longer.
const LINE_BYTES: usize = 1024;

/// Prints text on the host's standard output.
pub fn print(text: fmt::Arguments<'_>) {
    // Text that the host does not take has no other way out.
    if let Ok(mut out) = hio::hstdout() {
        let _ = out.write_fmt(text);
    }
}

/// Ends the program. The emulator's exit code is 0 if it succeeded, and 1 otherwise.
pub fn exit(succeeded: bool) -> ! {
    loop {
        debug::exit(if succeeded { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}

/// The words after the program's name that the emulator was given, separated by spaces; empty if the
/// host gives none.
pub fn command_line() -> String {
    let mut line = [0_u8; LINE_BYTES];
    let mut block = [line.as_mut_ptr() as usize, line.len()];
    let address = &raw mut block;
    // SAFETY: SYS_GET_CMDLINE takes the address and length of a buffer, writes a line that ends with
    // zero to it, and its length to the second word. Both live until after the call. The host writes
    // to the block although it is lent as shared, so its address comes from a mutable reference.
    let status = unsafe { syscall(nr::GET_CMDLINE, &*address) };
    // SAFETY: `block` is initialised; the host has changed its second word behind the compiler.
    let [_, length] = unsafe { core::ptr::read_volatile(&raw const block) };
    // SAFETY: as above, for the line.
    let line = unsafe { core::ptr::read_volatile(&raw const line) };
    let text = line.get(..length).filter(|_| status == 0).unwrap_or_default();
    String::from_utf8_lossy(text).trim_end_matches('\0').into()
}
