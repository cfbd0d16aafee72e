//! The network of images that are sized and not run: a register, whose content the compiler cannot
//! know.

/// The data of the board's Ethernet controller.
const DATA: *mut u32 = 0x4020_0000 as *mut u32;

/// Reads a message into `buffer`, and returns its length.
pub fn receive(buffer: &mut [u8]) -> usize {
    // SAFETY: the address is that of a register, which may be read at any time.
    buffer.iter_mut().for_each(|byte| *byte = unsafe { DATA.read_volatile() } as u8);
    // SAFETY: as above.
    buffer.len().min(unsafe { DATA.read_volatile() } as usize)
}

/// Writes a message.
pub fn send(message: &[u8]) {
    // SAFETY: the address is that of a register, which may be written at any time.
    message.iter().for_each(|byte| unsafe { DATA.write_volatile((*byte).into()) });
}
