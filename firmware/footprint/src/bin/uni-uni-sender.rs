//! A sender with a session for each listener.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::sessions::sender(footprint::settings::dtls12)
}
