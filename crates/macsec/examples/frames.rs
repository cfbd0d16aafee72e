//! Two MACsec SecYs exchange Ethernet frames. UDP sockets take the place of the wire between them.
//!
//! Each datagram carries one frame. The second frame arrives twice and the third one altered: both
//! are discarded, for the reason that is printed.
//!
//! Run it with `cargo run --example frames`.

use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use lightseal_macsec::secy::MAX_OVERHEAD;
use lightseal_macsec::{AssociationNumber, CipherSuite, PacketBuf, SaKey, Sci, Secy, SecySettings};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The secure channels of the two stations: address and port.
const ALICE: Sci = Sci { address: [2, 0, 0, 0, 0, 0xa], port: 1 };
const BOB: Sci = Sci { address: [2, 0, 0, 0, 0, 0xb], port: 1 };
/// The association whose key both have.
const AN: AssociationNumber = AssociationNumber::ALL[0];
/// Room before a frame for the bytes that the tag adds, and behind it for the ICV.
const ROOM: usize = MAX_OVERHEAD;

/// The secure association key, which both stations have from a key agreement (MKA), or from an
/// administrator. It must never be installed twice: packet numbers would be used twice.
fn key() -> Result<SaKey, lightseal_macsec::KeyError> {
    SaKey::new(&PROVIDER, CipherSuite::GcmAes128, &[0x2a; 16], None, Default::default())
}

fn main() -> Result<(), Box<dyn Error>> {
    let wire = UdpSocket::bind("127.0.0.1:0")?;
    wire.set_read_timeout(Some(Duration::from_secs(5)))?;
    let address = wire.local_addr()?;
    let alice = thread::spawn(move || send(address).map_err(|error| error.to_string()));

    let mut bob = Secy::new(SecySettings::new(BOB))?;
    bob.add_channel(ALICE)?;
    bob.install_receive_sa(ALICE, AN, key()?, 1)?;
    let mut buf = [0; 2048];
    loop {
        let len = wire.recv(&mut buf)?;
        let mut packet = PacketBuf::new(&mut buf, 0..len).ok_or("the range is in the buffer")?;
        match bob.receive(&mut packet) {
            Ok(delivery) => {
                let text = packet.bytes().get(14..).unwrap_or_default();
                println!("Bob: {delivery:?}: {:?}", String::from_utf8_lossy(text));
                if text == b"end" {
                    break;
                }
            }
            Err(reason) => println!("Bob: a frame of {len} bytes is discarded: {reason:?}"),
        }
    }
    Ok(alice.join().map_err(|_| "Alice's thread panicked")??)
}

fn send(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let wire = UdpSocket::bind("127.0.0.1:0")?;
    let mut alice = Secy::new(SecySettings::new(ALICE))?;
    alice.install_transmit_sa(AN, key()?, 1)?;
    for (number, text) in (1..).zip(["first", "second", "third", "end"]) {
        // An Ethernet frame: destination, source, EtherType (here one for experiments), payload.
        let frame = [&BOB.address[..], &ALICE.address, &[0x88, 0xb5], text.as_bytes()].concat();
        let mut buf = vec![0; ROOM + frame.len() + ROOM];
        buf[ROOM..ROOM + frame.len()].copy_from_slice(&frame);
        let mut packet = PacketBuf::new(&mut buf, ROOM..ROOM + frame.len())
            .ok_or("the range is in the buffer")?;
        alice.protect(&mut packet)?;
        println!("Alice: {} bytes become {}", frame.len(), packet.len());
        if number == 3 {
            // Somebody on the way changes a byte.
            packet.bytes_mut()[30] ^= 1;
        }
        wire.send_to(packet.bytes(), to)?;
        if number == 2 {
            wire.send_to(packet.bytes(), to)?;
        }
    }
    Ok(())
}
