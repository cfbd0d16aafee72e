//! A client of DTLS 1.3 whose association sleeps between its events.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::asleep(footprint::settings::dtls13_asleep)
}
