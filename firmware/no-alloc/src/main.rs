//! The crates that need no allocator, in an image that has none: it would not link if one of them
//! allocated. The image calls each of them, and its exit code is 0 if they answer what they should.
#![no_std]
#![no_main]

mod aggregation;
mod ciphers;
mod engines;
mod group;

use no_alloc::end;

#[cortex_m_rt::entry]
fn main() -> ! {
    end(ciphers::work() && aggregation::work() && engines::work() && group::work())
}
