//! A server and many clients.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::sessions(footprint::settings::dtls13, footprint::settings::dtls13)
}
