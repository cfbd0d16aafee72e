//! A client of DTLS 1.3 whose association is saved and restored.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::saved(footprint::settings::dtls13)
}
