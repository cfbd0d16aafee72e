//! A sender without security, whose request goes to the group.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::plain::multicast_sender()
}
