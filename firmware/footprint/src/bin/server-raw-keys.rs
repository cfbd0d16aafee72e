//! A server with a raw public key.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::server::alone(footprint::settings::raw_keys)
}
