//! A server with many sessions, which sleep between their events.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::server::with_sessions(footprint::settings::dtls13_asleep)
}
