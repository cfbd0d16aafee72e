//! Sample associations of DTLS 1.3 whose records share tags, made with the engine.

use super::{ExpectedFields, PORT, Sample, SampleDatagram};
use crate::Error;
use crate::capture::pcap::Reader;
use crate::capture::{Conversation, Decryption};
use core::net::SocketAddr;
use lightseal_dtls::codepoints::{ContentType, PskKeyExchangeMode};
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_dtls::passive::{Proof, Record, Secrets, Sender};
use lightseal_dtls::{
    AggregationPolicy, ClientConfig, ConnectionIds, CookiePolicy, ProtocolVersion, Psk, Scheme,
    ServerConfig, Settings,
};
use std::sync::Arc;

/// Bytes of a record's own tag.
const OWN_TAG: usize = 16;
const HEADER: usize = 13;

/// One association under each kind of scheme, with connection IDs and without.
pub(super) fn aggregated() -> Result<Vec<Sample>, Error> {
    let schemes = [
        ("off", None),
        ("agg:8", Some(3)),
        ("agg:16", None),
        ("r2d2:50", None),
        ("r2d2:100", Some(2)),
        ("r2d2:150", None),
        ("r2d2:200", None),
        ("sliding:100", None),
    ];
    schemes.into_iter().map(|(scheme, id_bytes)| sample(scheme, id_bytes)).collect()
}

fn sample(scheme: &str, id_bytes: Option<u8>) -> Result<Sample, Error> {
    let parsed: Scheme = scheme.parse().map_err(|_| Error::Stream("an unknown scheme"))?;
    let psk = Psk::external(b"Client_identity", b"secretPSKsecretP");
    let psk = psk.map_err(|_| Error::Stream("a PSK of an invalid length"))?;
    let mut settings = Settings::new(&rustcrypto::PROVIDER);
    settings.versions = vec![ProtocolVersion::Dtls13];
    settings.suites = vec![CipherSuiteId::AES_128_CCM_SHA256];
    settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    settings.connection_ids = id_bytes.map_or(ConnectionIds::Off, ConnectionIds::of_bytes);
    if parsed != Scheme::Plain {
        settings.aggregation = AggregationPolicy::both(parsed);
    }
    let client = ClientConfig::with(psk.clone(), settings.clone()).map_err(Error::Engine)?;
    let server = ServerConfig::with(Arc::new(psk), settings).map_err(Error::Engine)?;
    let server = server.with_cookies(CookiePolicy::Always);
    let messages = (0..20).map(|number: u8| vec![number; usize::from(number) + 1]).collect();
    let conversation = Conversation { client, server, messages, new_keys_after: Some(10), seed: 1 };
    let captured = conversation.run()?;

    let file = captured
        .write(Vec::new())
        .map_err(|_| Error::Stream("a capture that cannot be written"))?;
    let reader =
        Reader::new(&file[..]).map_err(|_| Error::Stream("a capture that cannot be read"))?;
    let keys = captured.keys.text();
    let secrets =
        Secrets::read(&keys).map_err(|_| Error::Stream("a key log that cannot be read"))?;
    let mut decryption = Decryption::new(reader, secrets);
    let mut datagrams = Vec::new();
    let broken = |_| Error::Stream("a capture that ends early");
    while let Some(entry) = decryption.next_datagram().map_err(broken)? {
        // The dissector tells the direction by the ports, so the client needs a port other than the
        // server's.
        let is_client = |record: &Record| record.sender == Sender::Client;
        let to_server = entry.records.first().is_some_and(is_client);
        let [client, server] = ["[fd00::1]:40000".to_owned(), format!("[fd00::2]:{PORT}")]
            .map(|text| text.parse::<SocketAddr>().expect("an address"));
        let (from, to) = if to_server { (client, server) } else { (server, client) };
        let payload = entry.datagram.payload;
        let (mut records, mut rest) = (Vec::new(), &payload[..]);
        for record in &entry.records {
            let (bytes, behind) = rest.split_at_checked(record.len).unwrap_or_default();
            records.push(shown(scheme, parsed, id_bytes, record, bytes));
            rest = behind;
        }
        datagrams.push(SampleDatagram { from, to, payload, records });
    }
    let id_bytes = id_bytes.unwrap_or_default();
    Ok(Sample {
        name: format!("dtls13-{}", scheme.replace(':', "-")),
        dissector: "lightseal-dtls",
        preferences: vec![
            format!("lsdtls.ports:{PORT}"),
            format!("lsdtls.to_server:{scheme}"),
            format!("lsdtls.to_client:{scheme}"),
            format!("lsdtls.id_to_server:{id_bytes}"),
            format!("lsdtls.id_to_client:{id_bytes}"),
        ],
        datagrams,
    })
}

/// The fields that a dissector should show for a record, derived from its decrypted content and its
/// length.
fn shown(
    name: &str,
    scheme: Scheme,
    id: Option<u8>,
    record: &Record,
    bytes: &[u8],
) -> ExpectedFields {
    let mut shown = ExpectedFields::default();
    let Record { epoch, number, kind, content, proof, .. } = record;
    let mut put = |name: &str, value: String| shown.put(format!("lsdtls.{name}"), value);
    let kind = kind.unwrap_or(ContentType(0));
    if *proof == Proof::Clear {
        put("type", kind.0.to_string());
        put("version", format!("0x{:02x}{:02x}", bytes[1], bytes[2]));
        put("epoch", epoch.to_string());
        put("number", number.unwrap_or_default().to_string());
        put("length", (bytes.len() - HEADER).to_string());
        shown.put_bytes("lsdtls.fragment", content);
        return shown;
    }
    // Records of the handshake have plain tags.
    let (name, scheme) = if *epoch < 3 { ("off", Scheme::Plain) } else { (name, scheme) };
    let has_own_tag = scheme == Scheme::Plain || kind != ContentType::APPLICATION_DATA;
    let own_tag = if has_own_tag { OWN_TAG } else { 0 };
    let aggregate = scheme.aggregate_len(number.unwrap_or_default());
    let flags = bytes[0];
    put("flags", format!("0x{flags:02x}"));
    let flag = |bit: u8| u8::from(flags & bit != 0).to_string();
    put("flags.connection_id", flag(0x10));
    put("flags.long_number", flag(0x08));
    put("flags.length", flag(0x04));
    put("epoch_bits", (epoch & 3).to_string());
    put("scheme", name.into());
    let body_len = content.len() + 1 + own_tag + aggregate;
    let (head, body) = bytes.split_at(bytes.len() - body_len);
    let has_length = flags & 0x04 != 0;
    let (head, length) = head.split_at(head.len() - if has_length { 2 } else { 0 });
    if has_length {
        put("length", u16::from_be_bytes([length[0], length[1]]).to_string());
    }
    let id = if flags & 0x10 != 0 { usize::from(id.unwrap_or_default()) } else { 0 };
    let (id, number) = head[1..].split_at(id);
    let number = number.iter().fold(0_u16, |number, byte| number << 8 | u16::from(*byte));
    put("number_encrypted", format!("0x{number:04x}"));
    shown.put_bytes("lsdtls.connection_id", id);
    match scheme {
        Scheme::Plain => {
            let (sealed, tag) = body.split_at(body_len - OWN_TAG);
            shown.put_bytes("lsdtls.encrypted", sealed);
            shown.put_bytes("lsdtls.tag", tag);
        }
        Scheme::Agg(_) => shown.put_bytes("lsdtls.encrypted_and_tags", body),
        _ => {
            let (sealed, aggregate) = body.split_at(body_len - aggregate);
            shown.put_bytes("lsdtls.encrypted_and_tags", sealed);
            shown.put_bytes("lsdtls.aggregate", aggregate);
        }
    }
    shown
}
