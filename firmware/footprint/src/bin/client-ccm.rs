//! A client with the suite of the images with shared tags, but plain tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::client::alone(footprint::settings::ccm)
}
