//! A sender with a session of DTLS 1.3 for each listener.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::sessions::sender(footprint::settings::dtls13)
}
