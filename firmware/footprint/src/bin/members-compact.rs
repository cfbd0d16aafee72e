//! All members of a group in the profile `compact`.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::writer::write(
        lightseal_group::policy::Profile::Compact,
        &footprint::settings::CCM_8_13,
    )
}
