//! The receiver of tags that R2D2 shares.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::tags::receiver::<64, 32, 112>(footprint::tags::R2D2)
}
