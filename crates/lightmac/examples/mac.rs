//! Messages with LightMAC tags over a UDP socket: the receiver accepts what the holder of the keys
//! sent, and drops the rest.
//!
//! Each datagram is a message followed by its tag of 8 bytes. A LightMAC tag covers the message
//! alone: it says nothing about order or repetition, so the messages carry a number.
//!
//! Run it with `cargo run --example mac`.

use lightmac::{Aes128, LightMac};
use std::net::UdpSocket;
use std::time::Duration;
use std::{error, thread};

/// The length of a tag in bits, and in bytes.
const TAG_BITS: u32 = 64;
const TAG_BYTES: usize = TAG_BITS as usize / 8;

/// The MAC of both ends, with a counter of 16 bits: messages may have up to 896 KiB.
fn mac() -> Result<LightMac<Aes128>, lightmac::ParameterError> {
    // Two independent keys. A real program draws them at random and keeps them secret.
    LightMac::new(&[0x11; 16].into(), &[0x22; 16].into(), 16, TAG_BITS)
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
    let address = receiver.local_addr()?;
    let sender = thread::spawn(move || send(address).map_err(|error| error.to_string()));

    let mac = mac()?;
    let mut buf = [0; 2048];
    loop {
        let len = receiver.recv(&mut buf)?;
        // A datagram that is shorter than a tag carries none.
        let Some((message, tag)) = buf[..len].split_at_checked(len.saturating_sub(TAG_BYTES))
        else {
            continue;
        };
        let text = String::from_utf8_lossy(message);
        // The comparison takes the same time wherever the first wrong byte is.
        match mac.verify(&[message], tag) {
            Ok(()) => println!("authentic: {text:?}"),
            Err(error) => println!("dropped: {text:?}: {error}"),
        }
        if message == b"4 end" {
            break;
        }
    }
    Ok(sender.join().map_err(|_| "the sender's thread panicked")??)
}

fn send(to: std::net::SocketAddr) -> Result<(), Box<dyn error::Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mac = mac()?;
    for (number, text) in (1..).zip(["21.5 C", "21.6 C", "21.7 C", "end"]) {
        let header = format!("{number} ");
        // A message may lie in several pieces of memory: the tag is that of their concatenation.
        let tag = mac.tag(&[header.as_bytes(), text.as_bytes()])?;
        let mut datagram = [header.as_bytes(), text.as_bytes(), tag.as_bytes()].concat();
        if number == 2 {
            // Somebody on the way changes a digit.
            datagram[2] ^= 1;
        }
        socket.send_to(&datagram, to)?;
    }
    Ok(())
}
