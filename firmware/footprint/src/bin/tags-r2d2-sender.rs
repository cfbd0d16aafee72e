//! The sender of tags that R2D2 shares.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::tags::sender(footprint::tags::R2D2)
}
