//! A client that can send under either family of shared tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::senders)
}
