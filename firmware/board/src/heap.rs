//! The allocator: one region between the program's variables and its stack.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, RefCell};
use core::ptr::{NonNull, null_mut};
use cortex_m::interrupt::{self, Mutex};
use linked_list_allocator::Heap;

/// The size of the heap in bytes: of 4 MiB of memory, a quarter is left for variables and stack.
const BYTES: usize = 3 << 20;

struct BoardHeap {
    heap: Mutex<RefCell<Heap>>,
    /// Allocated bytes now, and at most so far.
    used: Mutex<Cell<(usize, usize)>>,
}

#[global_allocator]
static HEAP: BoardHeap = BoardHeap {
    heap: Mutex::new(RefCell::new(Heap::empty())),
    used: Mutex::new(Cell::new((0, 0))),
};

/// Gives the allocator its memory. A program calls this once, before anything else.
pub fn start() {
    let start = cortex_m_rt::heap_start().cast();
    interrupt::free(|section| {
        let mut heap = HEAP.heap.borrow(section).borrow_mut();
        if heap.size() == 0 {
            // SAFETY: cortex-m-rt places nothing after `heap_start`, the region ends within the RAM
            // of memory.x and below the stack, and the heap gets it once.
            unsafe { heap.init(start, BYTES) };
        }
    });
}

/// The greatest number of bytes that were allocated at once since the start.
pub fn peak_bytes() -> usize {
    interrupt::free(|section| HEAP.used.borrow(section).get().1)
}

// SAFETY: the heap returns blocks of its own region that fit the layout and overlap no other block,
// as GlobalAlloc demands; no interrupt handler runs while it works.
unsafe impl GlobalAlloc for BoardHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        interrupt::free(|section| {
            let block = self.heap.borrow(section).borrow_mut().allocate_first_fit(layout);
            let used = self.used.borrow(section);
            let (now, peak) = used.get();
            let now = now + if block.is_ok() { layout.size() } else { 0 };
            used.set((now, peak.max(now)));
            block.map_or(null_mut(), NonNull::as_ptr)
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        interrupt::free(|section| {
            // SAFETY: the caller got the block from `alloc` with this layout.
            unsafe { self.heap.borrow(section).borrow_mut().deallocate(block, layout) };
            let used = self.used.borrow(section);
            let (now, peak) = used.get();
            used.set((now.saturating_sub(layout.size()), peak));
        });
    }
}
