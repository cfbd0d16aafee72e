//! A client whose records share tags in both directions.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::r2d2_both)
}
