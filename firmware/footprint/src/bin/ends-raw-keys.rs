//! Both ends in one image, each with a raw public key.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::raw_keys, footprint::settings::raw_keys)
}
