//! Both ends in one image; the client's records share tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::r2d2_sender, footprint::settings::r2d2_receiver)
}
