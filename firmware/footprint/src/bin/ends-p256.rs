//! Both ends in one image, with the settings of the client.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::dtls13_p256, footprint::settings::dtls13_p256)
}
