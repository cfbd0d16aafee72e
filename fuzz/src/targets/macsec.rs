//! MACsec frames: parsing loses no bytes, and only protected frames are delivered as authentic.

use super::codec::written;
use lightseal_core::{Decode, PacketBuf};
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use lightseal_macsec::secy::{MAX_OVERHEAD, SciInTag, ValidateFrames};
use lightseal_macsec::{
    AssociationNumber, CipherSuite, Delivery, Frame, FrameProtection, Header, Kind, Replay,
    ReplayProtection, SaKey, Sci, Secy, SecySettings, XpnParameters, classify,
};

const PEER: Sci = Sci { address: [2, 0, 0, 0, 0, 1], port: 1 };
const US: Sci = Sci { address: [2, 0, 0, 0, 0, 2], port: 1 };
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::GcmAesXpn256];
/// Lengths in bytes of EtherType and payload: short enough for padding, around the limit of the
/// short length field SL, and long.
const LENGTHS: [usize; 5] = [2, 15, 47, 48, 300];

fn key(suite: CipherSuite) -> SaKey {
    let extended = suite.extended().then_some(XpnParameters { ssci: 1, salt: [9; 12] });
    SaKey::new(&PROVIDER, suite, &[3; 32][..suite.key_len()], extended, Default::default())
        .expect("a key of its suite's length")
}

fn plain(len: usize) -> Vec<u8> {
    [&US.address[..], &PEER.address, &vec![8; len]].concat()
}

fn protected(suite: CipherSuite, encrypt: bool, sci_in_tag: SciInTag) -> Vec<Vec<u8>> {
    let mut settings = SecySettings::new(PEER);
    settings.sci_in_tag = sci_in_tag;
    if !encrypt {
        settings.protection = FrameProtection::Integrity;
    }
    let mut secy = Secy::new(settings).expect("consistent settings");
    secy.install_transmit_sa(AssociationNumber::ALL[1], key(suite), 1)
        .expect("an association number without a key");
    let one = |len| {
        let frame = plain(len);
        let mut buffer = vec![0; frame.len() + MAX_OVERHEAD];
        buffer[16..16 + frame.len()].copy_from_slice(&frame);
        let mut packet = PacketBuf::new(&mut buffer, 16..16 + frame.len())
            .expect("the frame lies within its buffer");
        secy.protect(&mut packet).expect("the frame fits");
        packet.bytes().to_vec()
    };
    LENGTHS.into_iter().map(one).collect()
}

pub(super) fn frames(input: &[u8]) {
    let parsed = Frame::parse(input);
    if let Ok(frame) = parsed {
        assert_eq!(classify(input), Kind::Macsec);
        let parts = [frame.header_bytes(), frame.secure_data(), frame.icv(), frame.padding()];
        assert_eq!(parts.concat(), input);
        assert_eq!(written(&frame.header), frame.header_bytes());
        assert_eq!(Header::decode(frame.header_bytes()), Ok(frame.header));
    }
    for suite in SUITES {
        for validate_frames in
            [ValidateFrames::Disabled, ValidateFrames::Check, ValidateFrames::Strict]
        {
            let mut settings = SecySettings::new(US);
            settings.validate_frames = validate_frames;
            settings.replay = Replay::new(ReplayProtection::LateAndDuplicate, 64);
            let mut secy = Secy::new(settings).expect("consistent settings");
            secy.add_channel(PEER).expect("the first channel");
            secy.install_receive_sa(PEER, AssociationNumber::ALL[1], key(suite), 1)
                .expect("an association number without a key");
            let mut buffer = input.to_vec();
            let mut packet = PacketBuf::new(&mut buffer, 0..input.len()).expect("the whole buffer");
            let received = secy.receive(&mut packet);
            match received {
                Ok(Delivery::Ok) => {
                    let len = packet.len() - 12;
                    assert!(parsed.is_ok() && LENGTHS.contains(&len));
                    assert_eq!(packet.bytes(), plain(len));
                }
                Ok(Delivery::Untagged) => assert_eq!(packet.bytes(), input),
                Ok(Delivery::Delayed) => panic!("replays are refused"),
                Ok(_) => assert!(validate_frames != ValidateFrames::Strict && parsed.is_ok()),
                Err(_) => {}
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for suite in SUITES {
        for encrypt in [true, false] {
            for how in [SciInTag::Explicit, SciInTag::EndStation, SciInTag::Omitted] {
                seeds.extend(protected(suite, encrypt, how));
            }
        }
    }
    // A frame with the padding of a LAN, and one behind a VLAN tag.
    let mut padded = protected(SUITES[0], true, SciInTag::EndStation).swap_remove(0);
    padded.resize(60, 0);
    let mut tagged = padded.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    seeds.extend([padded, tagged, plain(50)]);
    seeds
}
