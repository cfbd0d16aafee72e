//! A listener with a session.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::sessions::listener(footprint::settings::dtls12)
}
