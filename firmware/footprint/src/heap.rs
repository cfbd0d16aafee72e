//! The heap, and a count of what is allocated.

use crate::settings::PAYLOAD;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use linked_list_allocator::Heap;

/// The size of the heap in bytes.
const SIZE: usize = 512 << 10;
/// Whether allocations are counted.
const INSTRUMENTED: bool = !cfg!(feature = "bare");

/// What is allocated, in bytes as they were asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The bytes allocated now.
    pub bytes: usize,
    /// The most bytes that were allocated at once since [`restart_peak`].
    pub peak: usize,
    /// The allocations that make up `bytes`. An allocator needs some bytes more for each.
    pub blocks: usize,
    /// All allocations that were ever made.
    pub allocations: usize,
    /// The bytes of the blocks that are allocated now and hold a record's payload: blocks of bytes, as
    /// long as a payload.
    pub payloads: usize,
}

struct State {
    heap: Heap,
    usage: Usage,
}

struct Counting(UnsafeCell<State>);

// SAFETY: the images have one thread and no interrupts.
unsafe impl Sync for Counting {}

#[global_allocator]
static ALLOCATOR: Counting = Counting(UnsafeCell::new(State {
    heap: Heap::empty(),
    usage: Usage { bytes: 0, peak: 0, blocks: 0, allocations: 0, payloads: 0 },
}));

unsafe extern "C" {
    /// The end of the statics, from the linker script.
    static mut __sheap: u8;
}

impl Counting {
    #[expect(clippy::mut_from_ref, reason = "one thread, and no call keeps the reference")]
    fn state(&self) -> &mut State {
        // SAFETY: the images have one thread and no interrupts, and the reference ends with the
        // method that called this one; no such method calls another.
        unsafe { &mut *self.0.get() }
    }
}

// SAFETY: memory comes from `Heap`, which holds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let State { heap, usage } = self.state();
        let Ok(memory) = heap.allocate_first_fit(layout) else { return null_mut() };
        if INSTRUMENTED {
            usage.bytes += layout.size();
            usage.peak = usage.peak.max(usage.bytes);
            usage.blocks += 1;
            usage.allocations += 1;
            usage.payloads += payload_bytes(layout);
        }
        memory.as_ptr()
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let State { heap, usage } = self.state();
        if INSTRUMENTED {
            usage.bytes -= layout.size();
            usage.blocks -= 1;
            usage.payloads -= payload_bytes(layout);
        }
        if let Some(memory) = NonNull::new(memory) {
            // SAFETY: the caller returns memory that `alloc` gave it.
            unsafe { heap.deallocate(memory, layout) };
        }
    }
}

/// The bytes of a block that holds a payload; 0 of another one.
fn payload_bytes(layout: Layout) -> usize {
    if layout == Layout::new::<[u8; PAYLOAD]>() { PAYLOAD } else { 0 }
}

/// Gives the allocator its memory. It is called once, first of all.
pub fn start() {
    let start = &raw mut __sheap;
    // SAFETY: the memory behind the statics belongs to nobody else; the stack is megabytes away.
    unsafe { ALLOCATOR.state().heap.init(start, SIZE) };
}

/// What is allocated now.
pub fn usage() -> Usage {
    ALLOCATOR.state().usage
}

/// The peak is from now on the peak since this call.
pub fn restart_peak() {
    let usage = &mut ALLOCATOR.state().usage;
    usage.peak = usage.bytes;
}
