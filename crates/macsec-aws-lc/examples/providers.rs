//! One SecY with the cryptography of AWS-LC, its peer with that of RustCrypto: a frame that one
//! protects is valid for the other, because both providers compute the same bytes.
//!
//! UDP sockets take the place of the wire. Run it with `cargo run --example providers`.

use lightseal_macsec::crypto::rustcrypto;
use lightseal_macsec::secy::MAX_OVERHEAD;
use lightseal_macsec::{
    AssociationNumber, CipherSuite, GcmProvider, PacketBuf, SaKey, Sci, Secy, SecySettings,
};
use std::error::Error;
use std::net::UdpSocket;
use std::time::Duration;

/// The secure channels of the two stations.
const ALICE: Sci = Sci { address: [2, 0, 0, 0, 0, 0xa], port: 1 };
const BOB: Sci = Sci { address: [2, 0, 0, 0, 0, 0xb], port: 1 };
/// The association whose key both have.
const AN: AssociationNumber = AssociationNumber::ALL[0];
/// Room before and behind a frame, for the tag and the ICV.
const ROOM: usize = MAX_OVERHEAD;

/// The key of the association, computed with by `provider`.
fn key(provider: &GcmProvider) -> Result<SaKey, lightseal_macsec::KeyError> {
    SaKey::new(provider, CipherSuite::GcmAes256, &[0x2a; 32], None, Default::default())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    there.set_read_timeout(Some(Duration::from_secs(5)))?;
    let fast = &lightseal_macsec_aws_lc::PROVIDER;
    for (ours, theirs) in [(fast, &rustcrypto::PROVIDER), (&rustcrypto::PROVIDER, fast)] {
        let mut alice = Secy::new(SecySettings::new(ALICE))?;
        alice.install_transmit_sa(AN, key(ours)?, 1)?;
        let mut bob = Secy::new(SecySettings::new(BOB))?;
        bob.add_channel(ALICE)?;
        bob.install_receive_sa(ALICE, AN, key(theirs)?, 1)?;

        // An Ethernet frame: destination, source, EtherType (here one for experiments), payload.
        let frame = [&BOB.address[..], &ALICE.address, b"\x88\xb5hello"].concat();
        let mut buf = [&[0; ROOM][..], &frame, &[0; ROOM]].concat();
        let mut packet = PacketBuf::new(&mut buf, ROOM..ROOM + frame.len()).ok_or("no room")?;
        alice.protect(&mut packet)?;
        here.send_to(packet.bytes(), there.local_addr()?)?;

        let mut buf = [0; 2048];
        let len = there.recv(&mut buf)?;
        let mut packet = PacketBuf::new(&mut buf, 0..len).ok_or("no room")?;
        bob.receive(&mut packet).map_err(|reason| format!("discarded: {reason:?}"))?;
        let text = String::from_utf8_lossy(&packet.bytes()[14..]);
        println!("protected by {}, validated by {}: {text:?}", ours.name, theirs.name);
    }
    Ok(())
}
