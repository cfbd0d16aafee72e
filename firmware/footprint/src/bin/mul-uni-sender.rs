//! A sender of a group, whose listeners respond in sessions.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::sender_with_sessions(
        &footprint::settings::CCM_8_12,
        footprint::settings::dtls12,
    )
}
