//! A sender without security, whose requests go to each listener.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::plain::unicast_sender()
}
