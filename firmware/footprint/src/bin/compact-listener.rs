//! A listener of a group in the profile `compact`.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::listener(&footprint::settings::CCM_8_13)
}
