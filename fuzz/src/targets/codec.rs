//! Messages and headers: each decoded message is encoded to the same bytes.

use attacks::setup::Setup;
use core::fmt::Debug;
use lightseal_core::{Decode, Encode, Reader, Writer};
use lightseal_dtls::Scheme;
use lightseal_dtls::messages::extensions::{
    Extensions, KeyShareEntry, OfferedPsks, cipher_suites, client_shares, groups, psk_modes,
    versions,
};
use lightseal_dtls::messages::{
    AggregationUpdate, Alert, ClientHello, EncryptedExtensions, EpochEnd, Fragment, KeyUpdate,
    RecordNumber, ServerHello, ack, aggregation,
};
use lightseal_dtls::record::{PlaintextHeader, UnifiedHeader};
use std::time::Duration;
use testkit::pair::Direction;

pub(super) fn written(message: &impl Encode) -> Vec<u8> {
    let mut buf = vec![0; 1 << 17];
    let mut w = Writer::new(&mut buf);
    w.put(message).expect("the buffer is larger than any input");
    w.finish().to_vec()
}

/// Runs every parser for messages of a peer.
pub(super) fn messages(input: &[u8]) {
    round_trip::<RecordNumber>(input);
    round_trip::<Alert>(input);
    round_trip::<KeyUpdate>(input);
    round_trip::<AggregationUpdate>(input);
    round_trip::<EpochEnd>(input);
    if let Ok(fragment) = Fragment::decode(input) {
        assert_eq!(written(&fragment), input);
        assert!(fragment.offset as usize + fragment.body.len() <= fragment.length as usize);
    }
    if let Ok(entry) = KeyShareEntry::decode(input) {
        assert_eq!(written(&entry), input);
    }
    if let Ok(records) = ack::read(input) {
        let records: Vec<_> = records.collect();
        let mut buf = vec![0; input.len()];
        let mut w = Writer::new(&mut buf);
        ack::write(&records, &mut w).expect("as long as the input");
        assert_eq!(w.finish(), input);
    }
    if let Ok((down, up)) = aggregation::read_answer(input) {
        let mut buf = [0; 16];
        let mut w = Writer::new(&mut buf);
        aggregation::write_answer(down, up, &mut w).expect("an answer is short");
        assert_eq!(aggregation::read_answer(w.finish()), Ok((down, up)));
    }
    let offer = aggregation::Offer::new(input);
    let (down, up) = offer.select(|_| true, |_| true);
    assert!(down != Scheme::Plain || offer.select(|_| true, |_| false).0 == Scheme::Plain);
    assert_eq!(offer.select(|s| s == down, |s| s == up), (down, up));
    let (all_down, all_up) = offer.lists();
    let first = |list: Vec<Scheme>| list.first().copied().unwrap_or(Scheme::Plain);
    assert_eq!((first(all_down), first(all_up)), (down, up));
    if let Ok(hello) = ClientHello::decode(input) {
        let _ = cipher_suites(hello.cipher_suites).map(Iterator::count);
        extensions(hello.extensions);
    }
    if let Ok(hello) = ServerHello::decode(input) {
        let _ = hello.is_retry();
        extensions(hello.extensions);
    }
    if let Ok(message) = EncryptedExtensions::decode(input) {
        extensions(message.extensions);
    }
}

/// Checks that a decoded value is still equal after it was encoded and decoded again.
fn round_trip<T: for<'a> Decode<'a> + Encode + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(value) = T::decode(bytes) else { return };
    assert_eq!(T::decode(&written(&value)).as_ref(), Ok(&value));
}

fn extensions(extensions: Extensions<'_>) {
    let kinds: Vec<_> = extensions.iter().map(|(kind, _)| kind).collect();
    assert_eq!(extensions.last(), kinds.last().copied());
    for (kind, content) in extensions.iter() {
        assert_eq!(extensions.get(kind), Some(content), "no type comes twice");
        let _ = versions(content).map(Iterator::count);
        let _ = groups(content).map(Iterator::count);
        let _ = psk_modes(content).map(Iterator::count);
        let _ = client_shares(content).map(Iterator::count);
        if let Ok(psks) = OfferedPsks::decode(content) {
            assert!(psks.iter().count() > 0);
            assert!(psks.binders_len() <= content.len());
        }
        messages_of_extension(content);
    }
}

fn messages_of_extension(content: &[u8]) {
    if let Ok(entry) = KeyShareEntry::decode(content) {
        assert_eq!(written(&entry), content);
    }
    let _ = aggregation::Offer::new(content).select(|_| true, |_| true);
}

/// Parses the headers of all records in a datagram.
pub(super) fn headers(input: &[u8]) {
    let mut r = Reader::new(input);
    while let Some(first) = r.rest().first().copied() {
        let before = r.rest();
        let length = if UnifiedHeader::begins_with(first) {
            let Ok(header) = UnifiedHeader::read(&mut r, 0) else { return };
            let len = before.len() - r.rest().len();
            assert_eq!(len, header.header_len());
            let mut buf = [0; UnifiedHeader::MAX_LEN];
            let mut w = Writer::new(&mut buf);
            let number = header.number_bits(before);
            header.write(&[], number, &mut w).expect("the longest header fits");
            assert_eq!(w.finish(), &before[..len]);
            header.length.map_or(r.rest().len(), usize::from)
        } else {
            let Ok(header) = PlaintextHeader::read(&mut r) else { return };
            assert_eq!(PlaintextHeader::decode(&written(&header)), Ok(header));
            header.length.into()
        };
        if r.take(length).is_err() {
            return;
        }
    }
}

fn genuine() -> impl Iterator<Item = Vec<u8>> {
    Setup::all().into_iter().flat_map(|setup| {
        let mut pair = setup.pair(1);
        pair.run_for(Duration::from_secs(1));
        pair.send(Direction::ToServer, b"data");
        pair.run_for(Duration::from_secs(1));
        pair.log.into_iter().map(|(_, datagram)| datagram)
    })
}

pub(super) fn header_seeds() -> Vec<Vec<u8>> {
    genuine().collect()
}

/// Whole messages, their bodies, and the contents of their extensions.
pub(super) fn message_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1], vec![1, 0]];
    seeds.extend([vec![1], vec![1, 8, 0, 1, 4], vec![0x80, 1, 9, 1, 2, 0, 2, 8, 100, 1, 16]]);
    for datagram in genuine() {
        let Ok(header) = PlaintextHeader::read(&mut Reader::new(&datagram)) else { continue };
        let content = &datagram[PlaintextHeader::LEN..][..header.length.into()];
        seeds.push(content.to_vec());
        let Ok(fragment) = Fragment::decode(content) else { continue };
        seeds.push(fragment.body.to_vec());
        let client = ClientHello::decode(fragment.body).map(|hello| hello.extensions);
        let server = ServerHello::decode(fragment.body).map(|hello| hello.extensions);
        for block in client.into_iter().chain(server) {
            seeds.extend(block.iter().map(|(_, content)| content.to_vec()));
        }
    }
    seeds
}
