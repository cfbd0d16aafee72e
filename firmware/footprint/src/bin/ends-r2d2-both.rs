//! Both ends in one image; the records of both share tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::r2d2_both, footprint::settings::r2d2_both)
}
