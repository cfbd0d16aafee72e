//! Signs messages with LightMAC over PRESENT-80 and AES-128, sends them to the host, and checks what
//! the host signs.
#![no_std]
#![no_main]

use cortex_m_rt::entry;
use exchange::mac::Signer;

#[entry]
fn main() -> ! {
    image::run::<(), _>(|options, now| {
        let signer = Signer::new(&options.exchange, options.server, now);
        signer.ok_or_else(|| "the MACs have wrong parameters".into())
    })
}
