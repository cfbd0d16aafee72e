//! The receiver of tags that Agg shares.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::tags::receiver::<16, 32, 112>(footprint::tags::AGG)
}
