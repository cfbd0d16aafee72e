//! A listener without security.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::axiom::plain::listener()
}
