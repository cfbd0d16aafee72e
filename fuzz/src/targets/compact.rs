//! Records of groups in both profiles: a record that was not sealed does not open.

use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, MasterSecret12, Sha256, rustcrypto};
use lightseal_group::axiom::{self, Ciphertext};
use lightseal_group::compact::{
    Boot, EpochSecret, HeaderForm, PlainRecord, PrivateKey, RecordKeys, SealedRecord, SigningKey,
    Suite,
};
use lightseal_group::{GroupId, ListenerId, SenderId};
use std::sync::OnceLock;

const SENDER: SenderId = SenderId(5);
const BOOT: Boot = Boot { nonce: *b"restart1", request: 77 };

/// Keys, and every record that was sealed under them.
struct SealedRecords {
    requests: RecordKeys,
    responses: RecordKeys,
    pairwise: RecordKeys,
    direct: RecordKeys,
    axiom: axiom::Opener,
    signer: SigningKey,
    genuine: Vec<Vec<u8>>,
}

fn scene() -> &'static SealedRecords {
    static SCENE: OnceLock<SealedRecords> = OnceLock::new();
    SCENE.get_or_init(|| {
        let suite = CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256;
        let suite = Suite::find(&rustcrypto::PROVIDER, suite).expect("a known suite");
        let listener = ListenerId::new(0x01_0203).expect("a small identifier");
        let group = GroupId(*b"fuzzed lights 02");
        let epoch = EpochSecret::new(group, 7, &[0x5a; 16]);
        let (ours, theirs) = (PrivateKey::new(&[1; 32]), PrivateKey::new(&[2; 32]));
        let pair = epoch.pair_for_sender((SENDER, &ours), (listener, &theirs.public()));
        let pair = pair.expect("valid keys");
        let new = |stream, secret| RecordKeys::new(suite, stream, &secret);
        let requests = new(epoch.requests(SENDER), epoch.request_secret(SENDER));
        let responses = epoch.response_secret(SENDER, listener);
        let responses = new(epoch.responses(SENDER, listener), responses);
        let pairwise = pair.response_secret(&BOOT.nonce);
        let pairwise = new(epoch.pairwise_responses(SENDER, listener), pairwise);
        let direct = new(epoch.direct_requests(SENDER, listener), pair.direct_secret());
        let signer = SigningKey::new(&[9; 32]);
        let mut buf = [0; 300];
        let mut genuine = Vec::new();
        let mut number = 0;
        for keys in [&requests, &responses, &pairwise, &direct] {
            for form in
                [HeaderForm::Last, HeaderForm::Followed, HeaderForm::Full, HeaderForm::Boot(BOOT)]
            {
                for signed in [None, Some(&signer)] {
                    number += 1;
                    let data = PlainRecord::data(number, b"fuzzed payload");
                    let out = PlainRecord { form, signer: signed, ..data };
                    if let Ok(len) = keys.seal(&out, &mut buf) {
                        genuine.push(buf[..len].to_vec());
                    }
                }
            }
        }
        let parameters = axiom::SecurityParameters {
            entity: axiom::ConnectionEnd::Server,
            suite: axiom::Suite::new(&rustcrypto::PROVIDER, CipherSuiteId::PSK_WITH_AES_128_CCM_8)
                .expect("a known suite"),
            master_secret: MasterSecret12::from_bytes(&Sha256, [7; 48]),
            client_random: [1; 32],
            server_random: [2; 32],
        };
        let keys = parameters.group_keys();
        let sealer = keys.request_sealer(7, SENDER);
        for number in 0..4 {
            let kind = ContentType::APPLICATION_DATA;
            let len = sealer.seal(&mut buf, number, kind, |w| w.bytes(b"fuzzed payload"));
            genuine.push(buf[..len.expect("the buffer is large enough")].to_vec());
        }
        let axiom = keys.request_opener(7);
        SealedRecords { requests, responses, pairwise, direct, axiom, signer, genuine }
    })
}

/// Whether the first `len` bytes of the datagram, which opened as a record, are a record that was
/// sealed.
fn is_genuine(scene: &SealedRecords, input: &[u8], len: usize) -> bool {
    scene.genuine.iter().any(|genuine| *genuine == input[..len])
}

pub(super) fn records(input: &[u8]) {
    let scene = scene();
    let verifier = scene.signer.public();
    for verifier in [None, Some(&verifier)] {
        let mut copy = input.to_vec();
        if let Ok((record, rest)) = SealedRecord::request(&mut copy) {
            let len = input.len() - rest.len();
            let record = record.reveal(&scene.requests, 3);
            let opened = record.open(&scene.requests, verifier).is_ok();
            assert!(!opened || is_genuine(scene, input, len));
        }
        let mut copy = input.to_vec();
        if let Ok(record) = SealedRecord::direct(&mut copy) {
            let record = record.reveal(&scene.direct, 25);
            let opened = record.open(&scene.direct, verifier).is_ok();
            assert!(!opened || is_genuine(scene, input, input.len()));
        }
        for keys in [&scene.responses, &scene.pairwise] {
            let mut copy = input.to_vec();
            if let Ok((record, rest)) = SealedRecord::response(&mut copy) {
                let len = input.len() - rest.len();
                let opened = record.reveal(keys, 12).open(keys, verifier).is_ok();
                assert!(!opened || is_genuine(scene, input, len));
            }
        }
    }
    let mut copy = input.to_vec();
    let mut rest = &mut copy[..];
    let mut at = 0;
    while let Ok((record, behind)) = Ciphertext::split_first(rest) {
        let end = input.len() - behind.len();
        if scene.axiom.open(record).is_ok() {
            assert!(scene.genuine.iter().any(|genuine| *genuine == input[at..end]));
        }
        (at, rest) = (end, behind);
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    scene().genuine.clone()
}
