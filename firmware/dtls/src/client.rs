//! A DTLS client: makes associations, sends payloads and waits for their echoes.
#![no_std]
#![no_main]

extern crate alloc;

use cortex_m_rt::entry;
use exchange::Client;

#[entry]
fn main() -> ! {
    image::run::<(), _>(|options, now| {
        Client::new(&options.exchange, options.server, now).map_err(|e| alloc::format!("{e}"))
    })
}
