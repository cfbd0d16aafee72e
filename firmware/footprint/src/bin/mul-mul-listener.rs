//! A listener of a group, which responds under the group's keys.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::listener(&footprint::settings::CCM_8_12)
}
