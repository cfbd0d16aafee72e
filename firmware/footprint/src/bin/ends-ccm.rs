//! Both ends in one image, with the suite of the images with shared tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::ccm, footprint::settings::ccm)
}
