//! The processor and the emulator: semihosting calls, marks, and the stack.

use core::arch::asm;

/// The file name of standard output in semihosting.
const CONSOLE: &[u8] = b":tt\0";

/// The operations of Arm's semihosting interface that the images use.
#[derive(Clone, Copy)]
enum Operation {
    Open = 0x01,
    Close = 0x02,
    Write = 0x05,
    Read = 0x06,
    Seek = 0x0a,
    ExitExtended = 0x20,
}

fn call(operation: Operation, parameters: &[usize]) -> usize {
    let result;
    // SAFETY: the emulator reads `parameters`, and memory that they name; each caller passes what
    // its operation expects.
    unsafe {
        asm!(
            "bkpt 0xab",
            inout("r0") operation as usize => result,
            in("r1") parameters.as_ptr(),
            options(nostack)
        );
    }
    result
}

/// An open file of the emulator's host.
pub struct File(usize);

impl File {
    /// Opens the file for reading. The name ends with a zero byte.
    pub fn open(name: &[u8]) -> Option<Self> {
        Self::with_mode(name, 1)
    }

    /// Makes the file, or empties it. The name ends with a zero byte.
    pub fn create(name: &[u8]) -> Option<Self> {
        Self::with_mode(name, 5)
    }

    fn with_mode(name: &[u8], mode: usize) -> Option<Self> {
        let length = name.len().checked_sub(1)?;
        let handle = call(Operation::Open, &[name.as_ptr() as usize, mode, length]);
        (handle != usize::MAX).then_some(Self(handle))
    }

    /// Fills `out`; false if the file ends before.
    pub fn read(&mut self, out: &mut [u8]) -> bool {
        call(Operation::Read, &[self.0, out.as_mut_ptr() as usize, out.len()]) == 0
    }

    /// Continues to read at the first byte.
    pub fn rewind(&mut self) {
        call(Operation::Seek, &[self.0, 0]);
    }

    /// Appends `bytes`.
    pub fn write(&mut self, bytes: &[u8]) {
        call(Operation::Write, &[self.0, bytes.as_ptr() as usize, bytes.len()]);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        call(Operation::Close, &[self.0]);
    }
}

/// Standard output.
pub fn console() -> Option<File> {
    File::with_mode(CONSOLE, 4)
}

/// Ends the emulator with an exit code.
pub fn exit(code: usize) -> ! {
    const APPLICATION_EXIT: usize = 0x20026;
    loop {
        call(Operation::ExitExtended, &[APPLICATION_EXIT, code]);
    }
}

/// Prints why the image cannot go on, and ends it. An image without instruments prints nothing.
pub fn fail(why: &str) -> ! {
    if !cfg!(feature = "bare")
        && let Some(mut console) = console()
    {
        console.write(why.as_bytes());
        console.write(b"\n");
    }
    exit(1)
}

/// Marks this place for the counter of instructions.
#[inline(always)]
pub fn mark() {
    // SAFETY: the hint has no effect on registers, and memory is not accessed. Without the option
    // `nomem` the compiler moves no access across it.
    unsafe { asm!("yield", options(nostack, preserves_flags)) }
}

/// The stack pointer.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp;
    // SAFETY: a register is read.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) }
    sp
}

/// The part of the stack that is painted, in bytes.
const PAINTED: usize = 256 << 10;
const PAINT: u32 = 0x5aa5_c33c;
/// The room between the stack pointer and the painted part, for the painter itself.
const GAP: usize = 128;

/// Paints the unused stack below `top`.
#[inline(never)]
pub fn paint_stack(top: usize) {
    let mut at = top - PAINTED;
    while at < top - GAP {
        // SAFETY: RAM has 4 MB, of which the stack and the heap take less than 1 MB from either
        // end; nothing lives below the stack pointer.
        unsafe { (at as *mut u32).write_volatile(PAINT) };
        at += 4;
    }
}

/// The bytes of stack below `top` that were written since it was painted.
#[inline(never)]
pub fn stack_depth(top: usize) -> usize {
    let mut at = top - PAINTED;
    while at < top - GAP {
        // SAFETY: as in `paint_stack`.
        if unsafe { (at as *const u32).read_volatile() } != PAINT {
            break;
        }
        at += 4;
    }
    top - at
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    fail("panic")
}

/// Ends an image that did something invalid. A panic is an undefined instruction, since the images
/// are built with `immediate-abort`.
#[cortex_m_rt::exception]
unsafe fn HardFault(_: &cortex_m_rt::ExceptionFrame) -> ! {
    fail("panic or fault")
}
