//! A stream of short records over a UDP socket in which eight records share one tag of 16 bytes.
//!
//! A datagram is the record number, the content, and what the scheme `agg:8` puts behind a record:
//! nothing seven times, then a tag. LightMAC is the pseudorandom function. Nothing is encrypted.
//!
//! Run it with `cargo run --example stream`.

use lightmac::cipher::KeyInit;
use lightmac::{Aes128, Hasher, LongLightMac};
use lightseal_aggregation::opener::Offer;
use lightseal_aggregation::{
    Block, CLOSING_BLOCK, Opener, Outcome, Prf, PrfState, RANK_BLOCK, RecordKind, RulerOrder,
    Scheme, Sealer, TAG_BLOCK,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The number of records that are sent: two sets.
const RECORDS: u64 = 16;

/// LightMAC with the three output blocks that `agg:8` uses, each under a key of its own.
struct Mac(LongLightMac<Aes128, 3>);

impl Mac {
    /// A real program draws these four keys at random, and keeps them secret.
    fn new() -> Result<Self, lightmac::ParameterError> {
        let cipher = |byte| Aes128::new(&[byte; 16].into());
        Ok(Self(LongLightMac::new(Hasher::from_cipher(cipher(1), 16)?, [2, 3, 4].map(cipher))))
    }

    /// The state of a record: its number and its content, in an unambiguous order.
    fn state(&self, number: u64, content: &[u8]) -> Result<PrfState, lightmac::MessageTooLong> {
        let state = self.0.hasher().hash_parts(&[&number.to_be_bytes(), content])?;
        Ok(Block::from(state).into())
    }
}

impl Prf for Mac {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        let key = [TAG_BLOCK, CLOSING_BLOCK, RANK_BLOCK].iter().position(|known| *known == index);
        let block = self.0.finalize(key.unwrap_or(usize::MAX), &(*state.as_bytes()).into());
        block.expect("agg:8 uses three output blocks").into()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let address = socket.local_addr()?;
    let sender = thread::spawn(move || send(address).map_err(|error| error.to_string()));

    let scheme: Scheme = "agg:8".parse()?;
    let mac = Mac::new()?;
    let mut opener = <Opener>::new(scheme, &RulerOrder::List).ok_or("the scheme shares no tags")?;
    let (mut held, mut slot, mut buf, mut verified) = (BTreeMap::new(), 0_u16, [0; 2048], 0);
    while verified < RECORDS {
        let len = socket.recv(&mut buf)?;
        let Some((header, rest)) = buf[..len].split_first_chunk() else { continue };
        let number = u64::from_be_bytes(*header);
        let tag_len = scheme.aggregate_len(number);
        // A number that was used before, or lies too far ahead, costs no computation.
        if rest.len() < tag_len || opener.admit(number).is_err() {
            continue;
        }
        let (content, tag) = rest.split_at(rest.len() - tag_len);
        // A slot of its own for each datagram: a forged one must not replace a genuine one.
        slot = slot.wrapping_add(1);
        if opener.offer_data(&mac, number, mac.state(number, content)?, tag, slot) == Offer::Held {
            held.insert(slot, content.to_vec());
        }
        while let Some(verdict) = opener.next_verdict() {
            let content = held.remove(&verdict.slot).unwrap_or_default();
            if verdict.outcome == Outcome::Verified {
                println!("record {}: {:?}", verdict.number, String::from_utf8_lossy(&content));
                verified += 1;
            }
        }
    }
    Ok(sender.join().map_err(|_| "the sender's thread panicked")??)
}

fn send(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let scheme: Scheme = "agg:8".parse()?;
    let mac = Mac::new()?;
    let mut sealer = Sealer::new(scheme, &RulerOrder::List).ok_or("the scheme shares no tags")?;
    for number in 0..RECORDS {
        let content = format!("{}.5 C", 20 + number);
        let mut tag = vec![0; scheme.aggregate_len(number)];
        let state = mac.state(number, content.as_bytes())?;
        sealer.seal(&mac, number, RecordKind::Data, state, &mut tag)?;
        println!("record {number} leaves with {} bytes of a tag", tag.len());
        socket.send_to(&[&number.to_be_bytes(), content.as_bytes(), &tag].concat(), to)?;
    }
    Ok(())
}
