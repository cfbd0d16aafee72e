//! Descriptions of records in words.

use lightseal_core::{Decode, Reader};
use lightseal_dtls::codepoints::{AlertDescription, ContentType, HandshakeType};
use lightseal_dtls::messages::{EpochEnd, Fragment, ServerHello, ack};
use lightseal_dtls::passive::{Proof, Record};
use std::fmt::Write as _;

/// How well a record is authenticated, in a word.
pub const fn proof(proof: Proof) -> &'static str {
    match proof {
        Proof::Clear => "clear",
        Proof::Verified => "verified",
        Proof::Pending => "pending",
        Proof::Unknown => "unverified",
        Proof::Forged => "forged",
        Proof::Locked => "locked",
        Proof::Malformed => "malformed",
    }
}

/// The name of a content type in lower case.
pub fn kind(kind: ContentType) -> String {
    kind.name().map_or_else(|| format!("content_type_{}", kind.0), str::to_lowercase)
}

/// The name of a handshake message in RFC 8446 and RFC 5246.
fn handshake(kind: HandshakeType) -> String {
    match kind.0 {
        11 => "certificate".into(),
        13 => "certificate_request".into(),
        15 => "certificate_verify".into(),
        number => kind.name().map_or_else(|| format!("handshake_type_{number}"), str::to_lowercase),
    }
}

/// The content of a record: names of handshake messages, an alert's description, the numbers of
/// acknowledged records. Application data is shown as text if it is printable, otherwise in hex.
pub fn content(record: &Record) -> String {
    let Record { kind: Some(kind), content, .. } = record else { return String::new() };
    let words = match *kind {
        ContentType::HANDSHAKE => messages(content),
        ContentType::ALERT => alert(content),
        ContentType::ACK => acknowledged(content),
        ContentType::EPOCH_END => EpochEnd::decode(content).ok().map(|end| {
            let closing = if end.closing.is_some() { ", closing tag" } else { "" };
            format!("after {} records{closing}", end.records)
        }),
        _ => None,
    };
    words.unwrap_or_else(|| data(content))
}

/// The messages in a handshake record. Fragments are shown with the range of bytes that they carry.
fn messages(content: &[u8]) -> Option<String> {
    let mut r = Reader::new(content);
    let mut words = String::new();
    while !r.is_empty() {
        let Fragment { kind, length, offset, body, .. } = Fragment::read(&mut r).ok()?;
        let separator = if words.is_empty() { "" } else { ", " };
        let whole = body.len() as u64 == u64::from(length);
        let retry = kind == HandshakeType::SERVER_HELLO
            && whole
            && ServerHello::decode(body).is_ok_and(|hello| hello.is_retry());
        let name = if retry { "hello_retry_request".into() } else { handshake(kind) };
        let _ = write!(words, "{separator}{name}");
        if !whole {
            let _ = write!(words, " [{offset}..{} of {length}]", offset as usize + body.len());
        }
    }
    Some(words)
}

fn alert(content: &[u8]) -> Option<String> {
    let [level, description] = content else { return None };
    let name = AlertDescription(*description).name();
    let name = name.map_or_else(|| description.to_string(), str::to_lowercase);
    let level = match level {
        1 => "warning",
        2 => "fatal",
        _ => return None,
    };
    Some(format!("{level} {name}"))
}

fn acknowledged(content: &[u8]) -> Option<String> {
    let numbers: Vec<_> = ack::read(content)
        .ok()?
        .map(|record| format!("{}/{}", record.epoch, record.number))
        .collect();
    Some(if numbers.is_empty() { "nothing".into() } else { numbers.join(", ") })
}

/// Bytes as text in quotes if they are printable ASCII, else in hex.
pub fn data(bytes: &[u8]) -> String {
    let printable = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if !bytes.is_empty() && bytes.iter().all(printable) {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    }
    hex(bytes)
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_dtls::passive::Sender;

    fn record(kind: ContentType, content: &[u8]) -> Record {
        Record {
            serial: 0,
            association: 0,
            sender: Sender::Client,
            epoch: 3,
            number: Some(0),
            kind: Some(kind),
            len: 0,
            content: content.to_vec(),
            proof: Proof::Verified,
            repeated: false,
        }
    }

    #[test]
    fn contents_are_told_in_words() {
        let told = |kind, bytes: &[u8]| content(&record(kind, bytes));
        assert_eq!(told(ContentType::APPLICATION_DATA, b"23.5 C"), "\"23.5 C\"");
        assert_eq!(told(ContentType::APPLICATION_DATA, b"a\"b"), "612262");
        assert_eq!(told(ContentType::APPLICATION_DATA, &[0, 0xff]), "00ff");
        assert_eq!(told(ContentType::ALERT, &[2, 51]), "fatal decrypt_error");
        assert_eq!(told(ContentType::ALERT, &[1, 255]), "warning 255");
        assert_eq!(told(ContentType::ALERT, &[9, 9]), "0909");
        assert_eq!(told(ContentType::ACK, &[0, 0]), "nothing");
        let fragments = [
            [20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7].as_slice(),
            &[11, 0, 0, 4, 0, 0, 0, 0, 2, 0, 0, 1, 7],
        ];
        let told_of = told(ContentType::HANDSHAKE, &fragments.concat());
        assert_eq!(told_of, "finished, certificate [2..3 of 4]");
        assert_eq!(told(ContentType::HANDSHAKE, &[1, 2]), "0102");
        assert_eq!(kind(ContentType(99)), "content_type_99");
        assert_eq!(kind(ContentType::TLS12_CID), "tls12_cid");
    }
}
