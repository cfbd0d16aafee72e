//! The sender of tags that Agg shares.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::tags::sender(footprint::tags::AGG)
}
