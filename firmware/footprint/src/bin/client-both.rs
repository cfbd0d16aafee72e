//! A client of both versions.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::both_versions)
}
