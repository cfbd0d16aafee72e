//! A client of DTLS 1.2.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::dtls12)
}
