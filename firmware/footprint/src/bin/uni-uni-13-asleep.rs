//! A sender with a session of DTLS 1.3 for each listener, which sleeps between its events.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::sessions::sender_asleep(footprint::settings::dtls13_asleep)
}
