//! A client whose handshake has a key exchange.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::dtls13_p256)
}
