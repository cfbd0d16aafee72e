//! A program that contains only one role of one configuration of the Axiom paper, so that its size
//! shows the code size of that role. The environment variable `FOOTPRINT` selects the role at build
//! time.
//!
//! | `FOOTPRINT` | configuration | role |
//! |---|---|---|
//! | (none) | CoAP | both |
//! | `b`, `c` | DTLS Uni-Uni | sender, listener |
//! | `d`, `e` | DTLS Mul-Uni | sender, listener |
//! | `f`, `g` | DTLS Mul-Mul | sender, listener |
//!
//! Datagrams are read from standard input and written to standard output, each preceded by its
//! length in two bytes.

use lightseal_core::{Decode, Engine, Instant, Output, Random};
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::{
    ClientConfig, Connection, Endpoint, ProtocolVersion, Psk, ServerConfig, Settings,
};
use lightseal_group::keys::{ControllerKey, Grant, KeyPath};
use lightseal_group::member::{Delivery, Membership, RequestKind, Roles};
use lightseal_group::numbers::{Ledger, LedgerFailed};
use lightseal_group::{GroupId, Identity, Member, Policy, SenderId, SenderSet};
use std::error::Error;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

const CHOICE: u8 = match option_env!("FOOTPRINT") {
    Some(choice) => choice.as_bytes()[0],
    None => b'a',
};
const CLIENT: bool = matches!(CHOICE, b'b' | b'd');
const SERVER: bool = matches!(CHOICE, b'c' | b'e');
const MEMBER: bool = matches!(CHOICE, b'd' | b'e' | b'f' | b'g');
const ASKS: bool = matches!(CHOICE, b'd' | b'f');
const WITHOUT_SESSIONS: bool = matches!(CHOICE, b'f' | b'g');

const NOW: Instant = Instant::ZERO;
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 5684);

type Done<T> = Result<T, Box<dyn Error>>;

/// Reads the next datagram. Fails at the end of the input.
fn datagram() -> Done<Vec<u8>> {
    let mut len = [0; 2];
    std::io::stdin().read_exact(&mut len)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(len))];
    std::io::stdin().read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write(bytes: &[u8]) -> Done<()> {
    std::io::stdout().write_all(&(bytes.len() as u16).to_be_bytes())?;
    Ok(std::io::stdout().write_all(bytes)?)
}

/// DTLS 1.2 with CCM_8, as in tinydtls.
fn settings() -> Settings {
    let mut settings = Settings::new(&PROVIDER);
    settings.versions = vec![ProtocolVersion::Dtls12];
    settings.suites = vec![lightseal_dtls::crypto::CipherSuiteId::PSK_WITH_AES_128_CCM_8];
    settings
}

fn drive<E: Engine>(engine: &mut E, mut datagram: Vec<u8>) -> Done<()> {
    engine.handle_datagram(NOW, PEER, &mut datagram);
    let mut buf = [0; 1500];
    loop {
        match engine.poll_output(&mut buf) {
            Output::Datagram { payload, .. } => write(payload)?,
            Output::Event(_) => {}
            Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
            Output::WakeAt(_) | Output::Idle => return Ok(()),
        }
    }
}

struct Nowhere;

impl Ledger for Nowhere {
    fn newest(&self, _: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        Ok(None)
    }

    fn reserved(&self, _: &GroupId, _: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(Some(0))
    }

    fn reserve(&mut self, _: &GroupId, _: u64, _: u64) -> Result<(), LedgerFailed> {
        Ok(())
    }
}

fn member(random: &mut Random) -> Done<Member> {
    let controller = datagram()?.as_slice().try_into()?;
    let controller = ControllerKey::from_bytes(&controller).ok_or("invalid controller key")?;
    let grant = Grant::decode(&datagram()?)?;
    let policy = Policy::decode(&datagram()?)?;
    let (keys, _) = KeyPath::join(controller, grant);
    let roles = Roles { sender: ASKS.then_some(SenderId(1)), listener: !ASKS };
    let senders = SenderSet::from([SenderId(1)]);
    let identity = Identity::generate(random);
    let membership = Membership { policy, roles, address: PEER.ip(), senders, keys, identity };
    Ok(Member::new(membership, &PROVIDER, Box::new(Nowhere), NOW, random.fork())?)
}

fn group(member: &mut Member, mut bytes: Vec<u8>) -> Done<()> {
    let mut buf = [0; 1500];
    if ASKS {
        let len = member.request(NOW, &bytes, &mut buf)?;
        write(&buf[..len])?;
        if WITHOUT_SESSIONS {
            let mut content = Vec::new();
            member.receive_unicast(NOW, PEER, &mut bytes, |delivery| {
                if let Delivery::Response { content: said, .. } = delivery {
                    content = said.to_vec();
                }
            });
            write(&content)?;
        }
        return Ok(());
    }
    let mut content = Vec::new();
    member.receive_multicast(NOW, PEER, &mut bytes, |delivery| {
        if let Delivery::Request { content: said, .. } = delivery {
            content = said.to_vec();
        }
    });
    if WITHOUT_SESSIONS {
        let (_, len) = member.respond(NOW, SenderId(1), RequestKind::Group, &content, &mut buf)?;
        content = buf[..len].to_vec();
    }
    write(&content)
}

fn main() -> Done<()> {
    let mut random = Random::from_seed(datagram()?.as_slice().try_into()?);
    let psk = || Psk::external(b"footprint", &[7; 16]);
    let (mut client, mut server, mut of_group) = (None, None, None);
    if CLIENT {
        let config = ClientConfig::with(psk()?, settings())?;
        client = Some(Connection::client(Arc::new(config), PEER, NOW, random.fork()));
    }
    if SERVER {
        let config = ServerConfig::with(Arc::new(psk()?), settings())?;
        server = Some(Endpoint::server(Arc::new(config), random.fork()));
    }
    if MEMBER {
        of_group = Some(member(&mut random)?);
    }
    loop {
        let bytes = datagram()?;
        if CLIENT && let Some(client) = &mut client {
            let _ = client.send(NOW, &bytes, &mut [])?;
            drive(client, bytes.clone())?;
        }
        if SERVER && let Some(server) = &mut server {
            drive(server, bytes.clone())?;
        }
        if MEMBER && let Some(member) = &mut of_group {
            group(member, bytes)?;
        } else {
            write(&bytes)?;
        }
    }
}
