//! A sender of a group in the profile `compact`.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::sender(&footprint::settings::CCM_8_13)
}
