//! A DTLS server: sends every payload back.
#![no_std]
#![no_main]

extern crate alloc;

use cortex_m_rt::entry;
use exchange::Server;

#[entry]
fn main() -> ! {
    image::run::<(), _>(|options, _| {
        Server::new(&options.exchange).map_err(|e| alloc::format!("{e}"))
    })
}
