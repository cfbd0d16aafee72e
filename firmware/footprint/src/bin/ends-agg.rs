//! Both ends in one image; the client's records share tags.
#![no_std]
#![no_main]

#[cortex_m_rt::entry]
fn main() -> ! {
    footprint::both::ends(footprint::settings::agg_sender, footprint::settings::agg_receiver)
}
