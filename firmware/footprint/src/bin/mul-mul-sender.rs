//! A sender of a group, whose listeners respond under the group's keys.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::sender(&footprint::settings::CCM_8_12)
}
