//! A server of DTLS 1.3 whose associations sleep between their events.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::server::alone(footprint::settings::dtls13_asleep)
}
