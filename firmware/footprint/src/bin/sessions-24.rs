//! A server with many sessions.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::server::with_sessions(footprint::settings::dtls13)
}
