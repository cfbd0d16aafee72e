//! Sizes in groups: how many bytes a record adds, and how many a rekey takes after an eviction.

use super::prelude::*;
use core::time::Duration;
use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, MasterSecret12, Sha256, rustcrypto};
use lightseal_group::codepoints::GROUP_REKEY;
use lightseal_group::compact::{EpochSecret, PlainRecord, RecordKeys};
use lightseal_group::rekey::{Chain, Change, ControllerSecret, KeyServer, Timing};
use lightseal_group::{GroupId, ListenerId, SenderId, axiom, compact};

pub(super) const OVERHEAD: Figure = Figure {
    name: "group-overhead",
    title: "What a group's record adds to its payload",
    source: PaperItem { paper: AXIOM, item: "Section 6.4" },
    about: "Bytes that sealed records of the engine add in both profiles, and bytes that other \
            protocols add, from their publications.",
    make: overhead,
};

pub(super) const REKEY: Figure = Figure {
    name: "group-rekey",
    title: "The record that tells all members but one a new key",
    source: PaperItem { paper: AXIOM, item: "Section 7.6" },
    about: "One member is evicted: the controller's signed message as a record in the epoch \
            before, in bytes of UDP payload. The value is the largest among the members whose \
            eviction was tried, each at the end of a hash chain, where the message is 16 bytes \
            longer.",
    make: rekey,
};

const GROUP: GroupId = GroupId(*b"figures of sizes");
const SENDER: SenderId = SenderId(1);
/// A payload of the length of a command to a light.
const PAYLOAD: &[u8] = b"dim to 40 %";

/// Seals the controller's records in both profiles, with 8-byte tags.
struct Wrapping {
    axiom: axiom::Sealer,
    compact: RecordKeys,
}

fn axiom_keys(id: CipherSuiteId) -> Option<axiom::GroupKeys> {
    let suite = axiom::Suite::new(&rustcrypto::PROVIDER, id)?;
    let parameters = axiom::SecurityParameters {
        entity: axiom::ConnectionEnd::Server,
        suite,
        master_secret: MasterSecret12::from_bytes(&Sha256, [7; 48]),
        client_random: [1; 32],
        server_random: [2; 32],
    };
    Some(parameters.group_keys())
}

fn no_suite() -> Error {
    Error::Stream("the provider lacks a suite")
}

impl Wrapping {
    fn new() -> Result<Self, Error> {
        let keys = axiom_keys(CipherSuiteId::PSK_WITH_AES_128_CCM_8).ok_or_else(no_suite)?;
        let suite =
            compact::Suite::find(&rustcrypto::PROVIDER, CipherSuiteId::AES_128_CCM_8_SHA256);
        let epoch = EpochSecret::new(GROUP, 1, &[7; 16]);
        let (stream, secret) =
            (epoch.requests(SenderId::CONTROLLER), epoch.request_secret(SenderId::CONTROLLER));
        Ok(Self {
            axiom: keys.request_sealer(1, SenderId::CONTROLLER),
            compact: RecordKeys::new(suite.ok_or_else(no_suite)?, stream, &secret),
        })
    }

    /// Lengths of a rekey message's record in `axiom-1.2` and `compact`, in bytes.
    fn lengths(&self, message: &[u8]) -> Result<[usize; 2], Error> {
        let mut buf = vec![0; message.len() + 100];
        let too_long = |_| Error::Stream("a rekey message is too long for a record");
        let axiom = self.axiom.seal(&mut buf, 0, GROUP_REKEY, |w| w.bytes(message));
        let record = PlainRecord { kind: GROUP_REKEY, ..PlainRecord::data(0, message) };
        let compact = self.compact.seal(&record, &mut buf).map_err(|_| too_long(()))?;
        Ok([axiom.map_err(|_| too_long(()))?, compact])
    }
}

/// Bytes that a request and a response have in `axiom-1.2`.
fn axiom_lengths(id: CipherSuiteId) -> Option<[usize; 2]> {
    let keys = axiom_keys(id)?;
    let mut buf = [0; 200];
    let data = ContentType::APPLICATION_DATA;
    let request = keys.request_sealer(1, SENDER);
    let request = request.seal(&mut buf, 0, data, |w| w.bytes(PAYLOAD)).ok()?;
    let individual = keys.individual([192, 0, 2, 1].into(), SENDER);
    let response = keys.response_sealer(&individual, 1, GROUP);
    let response = response.seal(&mut buf, 0, data, |w| w.bytes(PAYLOAD)).ok()?;
    Some([request, response])
}

/// Bytes that a request and a response have in `compact`, signed or not.
fn compact_lengths(id: CipherSuiteId, signed: bool) -> Option<[usize; 2]> {
    let suite = compact::Suite::find(&rustcrypto::PROVIDER, id)?;
    let listener = ListenerId::new(300)?;
    let epoch = EpochSecret::new(GROUP, 1, &[7; 16]);
    let signer = compact::SigningKey::new(&[9; 32]);
    let mut buf = [0; 200];
    let record = PlainRecord { signer: signed.then_some(&signer), ..PlainRecord::data(0, PAYLOAD) };
    let request = RecordKeys::new(suite, epoch.requests(SENDER), &epoch.request_secret(SENDER));
    let response = epoch.response_secret(SENDER, listener);
    let response = RecordKeys::new(suite, epoch.responses(SENDER, listener), &response);
    Some([request.seal(&record, &mut buf).ok()?, response.seal(&record, &mut buf).ok()?])
}

fn overhead(_: &FigureOptions) -> Result<FigureData, Error> {
    let added = |sealed: [usize; 2]| sealed.map(|len| (len - PAYLOAD.len()) as u64);
    let mut rows: Vec<(&str, &str, u64, u64, &str)> = Vec::new();
    for (id, name) in [
        (CipherSuiteId::PSK_WITH_AES_128_CCM_8, "AES-128-CCM_8"),
        (CipherSuiteId::PSK_WITH_AES_128_CCM, "AES-128-CCM"),
        (CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256, "AES-128-GCM"),
        (CipherSuiteId::PSK_WITH_NULL_SHA256, "none, HMAC-SHA256"),
    ] {
        let [request, response] = added(axiom_lengths(id).ok_or_else(no_suite)?);
        rows.push(("axiom-1.2", name, request, response, "measured"));
    }
    for (id, name, signed) in [
        (CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256, "AES-128-CTR, LightMAC, 8 B", false),
        (CipherSuiteId::AES_128_CCM_8_SHA256, "AES-128-CCM_8", false),
        (CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256, "AES-128-CTR, LightMAC, 16 B", false),
        (CipherSuiteId::AES_128_CCM_8_SHA256, "AES-128-CCM_8, Ed25519", true),
    ] {
        let [request, response] = added(compact_lengths(id, signed).ok_or_else(no_suite)?);
        rows.push(("compact", name, request, response, "measured"));
    }
    rows.extend([
        ("Group OSCORE", "group mode", 82, 82, "draft-ietf-core-oscore-groupcomm"),
        ("Group OSCORE", "pairwise mode", 18, 13, "draft-ietf-core-oscore-groupcomm"),
        ("Matter", "group messages", 34, 34, "Matter core specification"),
        ("KNX IP Secure", "routing", 38, 38, "ISO 22510"),
        ("MLS", "private messages", 145, 145, "RFC 9420, with openmls"),
    ]);
    let named = [
        ("protocol", "whose records"),
        ("protection", "cipher suite, and whether records are signed"),
        ("request_bytes", "bytes of a request beside its payload"),
        ("response_bytes", "bytes of a response beside its payload"),
        ("source", "measured on records of the engine, or the publication"),
    ];
    let rows = rows.into_iter().map(|(protocol, protection, request, response, source)| {
        vec![
            protocol.into(),
            protection.into(),
            Cell::Integer(request),
            Cell::Integer(response),
            source.into(),
        ]
    });
    Ok(FigureData::table(Table::new(&named, rows.collect())))
}

/// The largest number of members whose eviction is tried in a group.
const MAX_LEAVES: u32 = 200;

fn rekey(options: &FigureOptions) -> Result<FigureData, Error> {
    let wrapping = Wrapping::new()?;
    let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(10));
    let timing = timing.ok_or(Error::Stream("the timing of the rekey is invalid"))?;
    let mut rng = Random::insecure(options.seed);
    let mut rows = Vec::new();
    for members in [10, 100, 1000, 10_000, 100_000] {
        let secret = ControllerSecret::from_seed(&rng.array::<32>());
        let mut server = KeyServer::new(GROUP, secret.clone(), &mut rng);
        let join = Change { join: members, ..Change::default() };
        let refused = |_| Error::Stream("the key server refused a change");
        server.rekey(&join, timing, 1200, &mut rng).map_err(refused)?;
        let mut most = [0; 2];
        let tried = members.min(MAX_LEAVES);
        for at in 0..tried {
            let leaf = lightseal_group::rekey::Leaf::new(at * (members / tried));
            let leave = [leaf.ok_or(Error::Stream("the number of a leaf is invalid"))?];
            let chain =
                Chain::restore(rng.array(), 1).ok_or(Error::Stream("the hash chain is invalid"))?;
            let tree = server.tree().clone();
            let mut server = KeyServer::restore(GROUP, secret.clone(), 1, chain, tree);
            let change = Change { leave: &leave, ..Change::default() };
            let rekeying = server.rekey(&change, timing, 1200, &mut rng).map_err(refused)?;
            let [message] = &rekeying.messages[..] else {
                return Err(Error::Stream("an eviction takes more than one message"));
            };
            let lengths = wrapping.lengths(message)?;
            most = [most[0].max(lengths[0]), most[1].max(lengths[1])];
        }
        rows.push(vec![
            Cell::Integer(members.into()),
            Cell::Integer(server.tree().depth().into()),
            Cell::Integer(tried.into()),
            Cell::Integer(most[0] as u64),
            Cell::Integer(most[1] as u64),
        ]);
    }
    let named = [
        ("members", "members of the group, one of whom is evicted"),
        ("levels", "levels of the key tree"),
        ("leaves", "leaves whose eviction was tried"),
        ("axiom_bytes", "the longest datagram in profile axiom-1.2, AES-128-CCM_8"),
        ("compact_bytes", "the longest datagram in profile compact, AES-128-CCM_8"),
    ];
    Ok(FigureData::table(Table::new(&named, rows)))
}
