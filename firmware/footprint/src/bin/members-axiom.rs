//! All members of a group in the profile `axiom-1.2`.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::writer::write(
        lightseal_group::policy::Profile::Axiom12,
        &footprint::settings::CCM_8_12,
    )
}
