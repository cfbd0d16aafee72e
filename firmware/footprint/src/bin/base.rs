//! What every image has: start, heap, semihosting, meter.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::solo::nothing()
}
