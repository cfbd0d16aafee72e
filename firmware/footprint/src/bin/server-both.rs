//! A server of both versions.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::solo::server(footprint::settings::both_versions)
}
