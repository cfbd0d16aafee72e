//! Test vectors: the published ones, and frames made by scapy where none are published.

use lightseal_core::PacketBuf;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use lightseal_macsec::secy::{MAX_OVERHEAD, SciInTag, ValidateFrames};
use lightseal_macsec::{
    CipherSuite, ConfidentialityOffset, Delivery, Frame, FrameProtection, ProtectOutcome,
    Protection, SaKey, Sci, SciField, Secy, SecySettings, XpnParameters,
};
use std::collections::BTreeMap;

/// One block of `name = value` lines.
struct Vector<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Vector<'a> {
    fn all(text: &'a str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
        let blocks = lines.split(|line| line.is_empty()).filter(|block| !block.is_empty());
        blocks
            .map(|block| Self(block.iter().map(|line| line.split_once(" = ").unwrap()).collect()))
            .collect()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let text = self.0[name];
        (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
            .collect()
    }

    fn number(&self, name: &str) -> u64 {
        u64::from_str_radix(self.0[name], 16).unwrap()
    }

    fn key(&self) -> SaKey {
        let extended = self.0.contains_key("salt").then(|| XpnParameters {
            ssci: self.number("ssci").try_into().unwrap(),
            salt: self.bytes("salt").try_into().unwrap(),
        });
        let offset = self.0.get("offset").map_or(0, |bytes| bytes.parse().unwrap());
        let offset = ConfidentialityOffset::from_bytes(offset).unwrap();
        let suite: CipherSuite = self.0["suite"].parse().unwrap();
        SaKey::new(&PROVIDER, suite, &self.bytes("key"), extended, offset).unwrap()
    }

    fn check(&self) {
        let (plain, secured) = (self.bytes("frame"), self.bytes("macsec"));
        let context = format!("{} in {}", self.0["name"], self.0["suite"]);
        let sci = Sci::from_bytes(self.bytes("sci").try_into().unwrap());
        let header = Frame::parse(&secured).expect(&context).header;
        let an = header.tag.an;

        let mut settings = SecySettings::new(sci);
        settings.protection = match header.tag.protection {
            Protection::Confidential => FrameProtection::Confidentiality,
            _ => FrameProtection::Integrity,
        };
        settings.sci_in_tag = match header.tag.sci_field {
            SciField::Explicit(_) => SciInTag::Explicit,
            SciField::Implicit { .. } => SciInTag::EndStation,
        };
        let mut sender = Secy::new(settings).unwrap();
        sender.install_transmit_sa(an, self.key(), self.number("pn")).unwrap();
        let mut buffer = vec![0; plain.len() + MAX_OVERHEAD];
        buffer[16..16 + plain.len()].copy_from_slice(&plain);
        let mut packet = PacketBuf::new(&mut buffer, 16..16 + plain.len()).unwrap();
        assert_eq!(sender.protect(&mut packet), Ok(ProtectOutcome::Tagged), "{context}");
        assert_eq!(packet.bytes(), secured, "{context}");

        for validate_frames in [ValidateFrames::Strict, ValidateFrames::Check] {
            let us = Sci { address: [2; 6], port: 9 };
            let mut settings = SecySettings::new(us);
            settings.validate_frames = validate_frames;
            let mut receiver = Secy::new(settings).unwrap();
            receiver.add_channel(sci).unwrap();
            receiver.install_receive_sa(sci, an, self.key(), self.number("pn")).unwrap();
            let mut buffer = secured.clone();
            let mut packet = PacketBuf::new(&mut buffer, 0..secured.len()).unwrap();
            assert_eq!(receiver.receive(&mut packet), Ok(Delivery::Ok), "{context}");
            assert_eq!(packet.bytes(), plain, "{context}");
        }
    }
}

#[test]
fn published_frames_are_made_and_read() {
    let vectors = Vector::all(include_str!("../vectors/ieee-802.1ae-annex-c.txt"));
    assert_eq!(vectors.len(), 16);
    vectors.iter().for_each(Vector::check);
}

#[test]
fn frames_of_scapy_are_made_and_read() {
    let vectors = Vector::all(include_str!("../vectors/scapy.txt"));
    assert_eq!(vectors.len(), 52);
    vectors.iter().for_each(Vector::check);
}
