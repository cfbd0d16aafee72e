//! A listener of a group, which responds in a session.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::members::listener_with_session(
        &footprint::settings::CCM_8_12,
        footprint::settings::dtls12,
    )
}
