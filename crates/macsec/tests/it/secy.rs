//! Two SecYs exchange frames, and each treats invalid frames as configured.

use lightseal_core::PacketBuf;
use lightseal_macsec::crypto::rustcrypto::PROVIDER;
use lightseal_macsec::secy::{MAX_OVERHEAD, SciInTag, ValidateFrames};
use lightseal_macsec::{
    AssociationNumber, CipherSuite, ConfidentialityOffset, ConfigError, Delivery, Discard, Frame,
    FrameProtection, ProtectError, ProtectOutcome, Replay, ReplayProtection, SaKey, Sci, Secy,
    SecySettings, XpnParameters,
};
use proptest::prelude::*;

const A: Sci = Sci { address: [2, 0, 0, 0, 0, 0xa], port: 1 };
const B: Sci = Sci { address: [2, 0, 0, 0, 0, 0xb], port: 1 };
const AN: [AssociationNumber; 4] = AssociationNumber::ALL;

fn key(suite: CipherSuite, byte: u8) -> SaKey {
    key_with(suite, byte, ConfidentialityOffset::None)
}

fn key_with(suite: CipherSuite, byte: u8, offset: ConfidentialityOffset) -> SaKey {
    let extended = suite.extended().then_some(XpnParameters { ssci: 1, salt: [0x5a; 12] });
    SaKey::new(&PROVIDER, suite, &[byte; 32][..suite.key_len()], extended, offset).unwrap()
}

/// The default settings of `sci` with a change.
fn with(sci: Sci, change: impl FnOnce(&mut SecySettings)) -> SecySettings {
    let mut settings = SecySettings::new(sci);
    change(&mut settings);
    settings
}

/// The settings of `B` with this replay protection.
fn replay(protection: ReplayProtection, window: u32) -> SecySettings {
    with(B, |b| b.replay = Replay::new(protection, window))
}

const PROTECTIONS: [FrameProtection; 2] =
    [FrameProtection::Confidentiality, FrameProtection::Integrity];

/// A SecY that sends as `A`, with a key in association 0.
fn sender(settings: SecySettings, suite: CipherSuite, pn: u64) -> Secy {
    let mut secy = Secy::new(settings).unwrap();
    secy.install_transmit_sa(AN[0], key(suite, 1), pn).unwrap();
    secy
}

/// A SecY that receives from `A`.
fn receiver(settings: SecySettings, suite: CipherSuite, pn: u64) -> Secy {
    let mut secy = Secy::new(settings).unwrap();
    secy.add_channel(A).unwrap();
    secy.install_receive_sa(A, AN[0], key(suite, 1), pn).unwrap();
    secy
}

fn pair(suite: CipherSuite) -> (Secy, Secy) {
    (sender(SecySettings::new(A), suite, 1), receiver(SecySettings::new(B), suite, 1))
}

/// An Ethernet frame from `A` to `B` with `data_len` bytes of EtherType and payload.
fn plain(data_len: usize) -> Vec<u8> {
    let data = (0..data_len).map(|i| [8, 0].get(i).copied().unwrap_or(i as u8));
    B.address.into_iter().chain(A.address).chain(data).collect()
}

fn protect(secy: &mut Secy, frame: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut buffer = vec![0; frame.len() + MAX_OVERHEAD];
    buffer[16..16 + frame.len()].copy_from_slice(frame);
    let mut packet = PacketBuf::new(&mut buffer, 16..16 + frame.len()).unwrap();
    let result = secy.protect(&mut packet);
    if result != Ok(ProtectOutcome::Tagged) {
        assert_eq!(packet.bytes(), frame, "a frame without a tag is unchanged");
    }
    result.map(|_| packet.bytes().to_vec())
}

fn receive(secy: &mut Secy, frame: &[u8]) -> Result<(Delivery, Vec<u8>), Discard> {
    let mut buffer = frame.to_vec();
    let mut packet = PacketBuf::new(&mut buffer, 0..frame.len()).unwrap();
    secy.receive(&mut packet).map(|delivery| (delivery, packet.bytes().to_vec()))
}

#[test]
fn every_suite_carries_frames_of_every_length_either_way() {
    for suite in CipherSuite::ALL {
        for protection in PROTECTIONS {
            let encrypt = protection == FrameProtection::Confidentiality;
            let mut a = sender(with(A, |a| a.protection = protection), suite, 1);
            let mut b = receiver(SecySettings::new(B), suite, 1);
            let mut octets = 0;
            let lens = (2..70).chain([1500, 9000]);
            for len in lens.clone() {
                let frame = plain(len);
                let secured = protect(&mut a, &frame).unwrap();
                assert_eq!(secured.len(), frame.len() + MAX_OVERHEAD);
                assert_eq!(secured[28..28 + len] == frame[12..], !encrypt);
                assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, frame)), "{suite} {len}");
                octets += len as u64;
            }
            let count = lens.count() as u64;
            let (_, received, sas) = b.receive_counters().next().unwrap();
            assert_eq!((received.in_pkts_ok, sas[0].pkts_ok), (count, count));
            let (sent, sas) = a.transmit_counters();
            assert_eq!(sas[0].pkts_ok, count);
            if encrypt {
                assert_eq!((sent.out_pkts_encrypted, sent.out_octets_encrypted), (count, octets));
                assert_eq!(
                    (received.in_octets_decrypted, received.in_octets_validated),
                    (octets, 0)
                );
            } else {
                assert_eq!((sent.out_pkts_protected, sent.out_octets_protected), (count, octets));
                assert_eq!(
                    (received.in_octets_decrypted, received.in_octets_validated),
                    (0, octets)
                );
            }
        }
    }
}

#[test]
fn a_confidentiality_offset_leaves_the_front_readable() {
    for (offset, bytes) in
        [(ConfidentialityOffset::Bytes30, 30), (ConfidentialityOffset::Bytes50, 50)]
    {
        let suite = CipherSuite::GcmAes256;
        let mut a = Secy::new(SecySettings::new(A)).unwrap();
        a.install_transmit_sa(AN[1], key_with(suite, 1, offset), 1).unwrap();
        let mut b = Secy::new(SecySettings::new(B)).unwrap();
        b.add_channel(A).unwrap();
        b.install_receive_sa(A, AN[1], key_with(suite, 1, offset), 1).unwrap();
        for len in [bytes - 1, bytes, bytes + 1, 400] {
            let frame = plain(len);
            let secured = protect(&mut a, &frame).unwrap();
            let clear = bytes.min(len);
            assert_eq!(secured[28..28 + clear], frame[12..12 + clear]);
            assert_eq!(secured[28..28 + len] == frame[12..], len <= bytes);
            let mut changed = secured.clone();
            changed[30] ^= 1;
            assert_eq!(receive(&mut b, &changed), Err(Discard::NotValid));
            assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, frame)));
        }
    }
}

#[test]
fn who_sends_can_be_said_in_four_ways() {
    let others = [[9; 6].as_slice(), &[7; 6], &[8, 0, 1, 2]].concat();
    for (sci_in_tag, port, overhead, theirs) in [
        (SciInTag::Explicit, 5, 32, 32),
        (SciInTag::EndStation, 1, 24, 32),
        (SciInTag::SingleCopyBroadcast, 0, 24, 32),
        (SciInTag::Omitted, 77, 24, 24),
    ] {
        let sci = Sci { port, ..A };
        let mut a = sender(with(sci, |a| a.sci_in_tag = sci_in_tag), CipherSuite::GcmAes128, 1);
        let mut b = Secy::new(SecySettings::new(B)).unwrap();
        b.add_channel(sci).unwrap();
        b.install_receive_sa(sci, AN[0], key(CipherSuite::GcmAes128, 1), 1).unwrap();
        for (frame, overhead) in [(plain(100), overhead), (others.clone(), theirs)] {
            let secured = protect(&mut a, &frame).unwrap();
            assert_eq!(secured.len(), frame.len() + overhead, "{sci_in_tag:?}");
            assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, frame)), "{sci_in_tag:?}");
        }
        // With a second peer, a frame without an SCI could be from either.
        b.add_channel(Sci { port: 99, ..B }).unwrap();
        let secured = protect(&mut a, &plain(100)).unwrap();
        let expected = if sci_in_tag == SciInTag::Omitted {
            Err(Discard::NoSci)
        } else {
            Ok((Delivery::Ok, plain(100)))
        };
        assert_eq!(receive(&mut b, &secured), expected, "{sci_in_tag:?}");
    }
    let refused = |sci_in_tag, port| {
        Secy::new(with(Sci { port, ..A }, |a| a.sci_in_tag = sci_in_tag)).unwrap_err()
    };
    for (sci_in_tag, port) in [(SciInTag::EndStation, 2), (SciInTag::SingleCopyBroadcast, 1)] {
        assert_eq!(refused(sci_in_tag, port), ConfigError::Port(sci_in_tag));
    }
}

#[test]
fn numbers_end_and_never_wrap() {
    for (suite, last) in
        [(CipherSuite::GcmAes128, u64::from(u32::MAX)), (CipherSuite::GcmAesXpn128, u64::MAX)]
    {
        let mut a = sender(SecySettings::new(A), suite, last - 1);
        let mut b = receiver(SecySettings::new(B), suite, last - 1);
        for left in [Some(last), None] {
            let secured = protect(&mut a, &plain(60)).unwrap();
            assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, plain(60))));
            assert_eq!(a.encoding(), Some((AN[0], left)));
        }
        for _ in 0..3 {
            assert_eq!(protect(&mut a, &plain(60)), Err(ProtectError::Exhausted));
        }
        assert_eq!(a.counters().out_pkts_no_sa, 3);

        // Sending continues with another key.
        a.install_transmit_sa(AN[1], key(suite, 2), 1).unwrap();
        assert_eq!(
            protect(&mut a, &plain(60)),
            Err(ProtectError::Exhausted),
            "the host must select the new key"
        );
        a.select_encoding_sa(AN[1]).unwrap();
        b.install_receive_sa(A, AN[1], key(suite, 2), 1).unwrap();
        let secured = protect(&mut a, &plain(60)).unwrap();
        assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, plain(60))));
    }
}

#[test]
fn extended_numbers_go_on_beyond_32_bits_and_losses() {
    let suite = CipherSuite::GcmAesXpn256;
    let mut a = sender(SecySettings::new(A), suite, 0xffff_fff0);
    let mut b = receiver(replay(ReplayProtection::Late, 64), suite, 0xffff_fff0);
    let frames: Vec<_> = (0..64).map(|_| protect(&mut a, &plain(20)).unwrap()).collect();
    assert_eq!(
        Frame::parse(&frames[16]).unwrap().header.tag.pn,
        0,
        "the low half of the packet number is 0"
    );
    // Every third frame arrives, then the missing ones in random order.
    for third in [0, 2, 1] {
        for frame in frames.iter().skip(third).step_by(3) {
            assert_eq!(receive(&mut b, frame), Ok((Delivery::Ok, plain(20))));
        }
    }
    let (_, next) = b.receive_numbers(A, AN[0]).unwrap();
    assert_eq!(next, (1 << 32) + 48);
}

#[test]
fn copies_and_latecomers_are_counted_and_refused_as_asked() {
    let suite = CipherSuite::GcmAes128;
    use ReplayProtection::{Late, LateAndDuplicate, Off};
    let mut a = sender(SecySettings::new(A), suite, 1);
    let frames: Vec<_> = (0..40).map(|_| protect(&mut a, &plain(30)).unwrap()).collect();
    let ok = Ok((Delivery::Ok, plain(30)));

    let mut strict = receiver(replay(Late, 0), suite, 1);
    assert_eq!(receive(&mut strict, &frames[1]), ok);
    assert_eq!(receive(&mut strict, &frames[0]), Err(Discard::Late));
    assert_eq!(receive(&mut strict, &frames[1]), Err(Discard::Late));
    assert_eq!(receive(&mut strict, &frames[2]), ok);

    let mut window = receiver(replay(Late, 10), suite, 1);
    assert_eq!(receive(&mut window, &frames[30]), ok);
    assert_eq!(receive(&mut window, &frames[21]), ok);
    assert_eq!(receive(&mut window, &frames[20]), Err(Discard::Late));
    assert_eq!(receive(&mut window, &frames[25]), ok);
    assert_eq!(
        receive(&mut window, &frames[25]),
        ok,
        "the standard accepts duplicates inside of the window"
    );

    let mut once = receiver(replay(LateAndDuplicate, 10), suite, 1);
    assert_eq!(receive(&mut once, &frames[30]), ok);
    assert_eq!(receive(&mut once, &frames[25]), ok);
    assert_eq!(receive(&mut once, &frames[25]), Err(Discard::Late));
    assert_eq!(receive(&mut once, &frames[20]), Err(Discard::Late));
    let (_, counters, _) = once.receive_counters().next().unwrap();
    assert_eq!((counters.in_pkts_late, counters.in_pkts_duplicate), (2, 1));

    let mut open = receiver(replay(Off, 10), suite, 1);
    assert_eq!(receive(&mut open, &frames[30]), ok);
    assert_eq!(receive(&mut open, &frames[5]), Ok((Delivery::Delayed, plain(30))));
    assert_eq!(receive(&mut open, &frames[30]), ok, "without protection no duplicate is refused");

    let refused = Secy::new(replay(Late, 1 << 30));
    assert_eq!(refused.unwrap_err(), ConfigError::ReplayWindow);
    assert!(Secy::new(replay(Late, (1 << 30) - 1)).is_ok());
}

#[test]
fn a_forged_number_moves_nothing() {
    let (mut a, mut b) = pair(CipherSuite::GcmAes128);
    let first = protect(&mut a, &plain(30)).unwrap();
    let mut forged = first.clone();
    forged[16] = 0xff;
    assert_eq!(receive(&mut b, &forged), Err(Discard::NotValid));
    assert_eq!(b.receive_numbers(A, AN[0]), Some((1, 1)));
    assert_eq!(receive(&mut b, &first), Ok((Delivery::Ok, plain(30))));
    b.raise_lowest_pn(A, AN[0], 5).unwrap();
    let second = protect(&mut a, &plain(30)).unwrap();
    assert_eq!(receive(&mut b, &second), Err(Discard::Late));
}

/// What happens to an invalid frame for each of the three settings: figure 10-5, row by row.
#[test]
fn what_is_not_valid_goes_its_way() {
    use ValidateFrames::{Check, Disabled, Strict};
    let suite = CipherSuite::GcmAes128;
    for protection in PROTECTIONS {
        let encrypt = protection == FrameProtection::Confidentiality;
        let mut a = sender(with(A, |a| a.protection = protection), suite, 1);
        let good = protect(&mut a, &plain(60)).unwrap();
        let change = |at: usize, mask: u8| {
            let mut frame = good.clone();
            frame[at] ^= mask;
            frame
        };
        let tampered = change(good.len() - 1, 1);
        let unknown = change(20, 1);
        let unused = change(14, 3);
        for validate_frames in [Disabled, Check, Strict] {
            let settings = with(B, |b| b.validate_frames = validate_frames);
            let outcome = |frame: &[u8]| {
                let mut b = receiver(settings.clone(), suite, 1);
                let outcome = receive(&mut b, frame).map(|(delivery, frame)| {
                    assert_eq!(frame, plain(60), "{delivery:?}");
                    delivery
                });
                (outcome, b)
            };
            let counted = |frame: &[u8]| {
                let (outcome, b) = outcome(frame);
                let (_, counters, sas) = b.receive_counters().next().unwrap();
                (outcome, *b.counters(), *counters, *sas)
            };
            let hard = encrypt || validate_frames == Strict;

            let (result, _, counters, sas) = counted(&good);
            let unchecked = validate_frames == Disabled && !encrypt;
            assert_eq!(result, Ok(if unchecked { Delivery::Unchecked } else { Delivery::Ok }));
            assert_eq!(
                (counters.in_pkts_unchecked, sas[0].pkts_ok),
                if unchecked { (1, 0) } else { (0, 1) }
            );

            let (result, _, counters, sas) = counted(&tampered);
            if hard {
                assert_eq!(result, Err(Discard::NotValid));
                assert_eq!((counters.in_pkts_not_valid, sas[0].in_pkts_not_valid), (1, 1));
            } else if validate_frames == Check {
                assert_eq!(result, Ok(Delivery::Invalid));
                assert_eq!((counters.in_pkts_invalid, sas[0].in_pkts_invalid), (1, 1));
            } else {
                assert_eq!(result, Ok(Delivery::Unchecked));
            }

            let (result, all, ..) = counted(&unknown);
            let expected = if hard { Err(Discard::NoSci) } else { Ok(Delivery::UnknownSci) };
            assert_eq!(result, expected);
            assert_eq!(
                (all.in_pkts_no_sci, all.in_pkts_unknown_sci),
                if hard { (1, 0) } else { (0, 1) }
            );

            let (result, _, counters, sas) = counted(&unused);
            let expected = if hard { Err(Discard::NotUsingSa) } else { Ok(Delivery::UnusedSa) };
            assert_eq!(result, expected);
            let both = |counted: u64, by_sa: u64| counted + by_sa;
            assert_eq!(
                both(counters.in_pkts_not_using_sa, sas[3].in_pkts_not_using_sa),
                2 * u64::from(hard)
            );
            assert_eq!(
                both(counters.in_pkts_unused_sa, sas[3].in_pkts_unused_sa),
                2 * u64::from(!hard)
            );

            let (result, all, ..) = counted(&plain(60));
            let strict = validate_frames == Strict;
            assert_eq!(result, if strict { Err(Discard::NoTag) } else { Ok(Delivery::Untagged) });
            assert_eq!(
                (all.in_pkts_no_tag, all.in_pkts_untagged),
                if strict { (1, 0) } else { (0, 1) }
            );

            // V, SL and a packet number of 0 are invalid in any combination with other fields.
            let mut zero = good.clone();
            zero[16..20].fill(0);
            for bad in [change(14, 0x80), change(14, 0x40), change(15, 48), change(15, 1), zero] {
                let (result, all, ..) = counted(&bad);
                assert_eq!((result, all.in_pkts_bad_tag), (Err(Discard::BadTag), 1));
            }
            let (result, all, ..) = counted(&change(14, if encrypt { 4 } else { 8 }));
            assert_eq!((result, all.in_pkts_key_agreement), (Err(Discard::KeyAgreement), 1));
            // Changed text without encryption, which no suite produces.
            let (result, ..) = counted(&change(14, if encrypt { 8 } else { 4 }));
            assert_eq!(result, Err(Discard::NotValid));
        }
    }
}

#[test]
fn a_frame_is_sent_as_it_is_or_not_at_all() {
    let suite = CipherSuite::GcmAes128;
    let mut off = Secy::new(with(A, |a| a.protection = FrameProtection::Off)).unwrap();
    assert_eq!(protect(&mut off, &plain(50)), Ok(plain(50)));
    assert_eq!(off.counters().out_pkts_untagged, 1);

    let mut empty = Secy::new(SecySettings::new(A)).unwrap();
    assert_eq!(protect(&mut empty, &plain(50)), Err(ProtectError::NoSa));
    assert_eq!(empty.encoding(), None);

    let mut narrow = sender(with(A, |a| a.max_frame_len = 1514), suite, 1);
    assert_eq!(protect(&mut narrow, &plain(1471)), Err(ProtectError::TooLong));
    assert_eq!(narrow.counters().out_pkts_too_long, 1);
    assert_eq!(protect(&mut narrow, &plain(1470)).map(|frame| frame.len()), Ok(1514));
    assert_eq!(
        narrow.encoding(),
        Some((AN[0], Some(2))),
        "only a frame that is sent uses a packet number"
    );
    assert_eq!(protect(&mut narrow, &plain(1)), Err(ProtectError::Short));
    assert!(protect(&mut narrow, &plain(2)).is_ok());

    for (start, end) in [(15, 16), (16, 15)] {
        let mut buffer = vec![0; start + 60 + end];
        let mut packet = PacketBuf::new(&mut buffer, start..start + 60).unwrap();
        assert_eq!(narrow.protect(&mut packet), Err(ProtectError::NoRoom));
    }
}

#[test]
fn a_key_is_never_put_in_anothers_place() {
    let suite = CipherSuite::GcmAes128;
    let (mut a, mut b) = pair(suite);
    assert_eq!(a.install_transmit_sa(AN[0], key(suite, 1), 1), Err(ConfigError::InUse(AN[0])));
    assert_eq!(b.install_receive_sa(A, AN[0], key(suite, 1), 1), Err(ConfigError::InUse(AN[0])));
    for pn in [0, 1 << 32] {
        let error = Err(ConfigError::PacketNumber(suite));
        assert_eq!(a.install_transmit_sa(AN[1], key(suite, 1), pn), error);
        assert_eq!(b.install_receive_sa(A, AN[1], key(suite, 1), pn), error);
    }
    assert_eq!(a.select_encoding_sa(AN[1]), Err(ConfigError::NoKey(AN[1])));
    assert_eq!(b.add_channel(A), Err(ConfigError::Channel(A)));
    assert_eq!(b.add_channel(B), Err(ConfigError::Channel(B)), "our own SCI");
    assert_eq!(b.raise_lowest_pn(A, AN[1], 1), Err(ConfigError::NoKey(AN[1])));
    assert_eq!(b.raise_lowest_pn(B, AN[1], 1), Err(ConfigError::NoChannel(B)));
    a.retire_transmit_sa(AN[0]);
    assert_eq!(protect(&mut a, &plain(9)), Err(ProtectError::NoSa));
    b.retire_receive_sa(A, AN[0]);
    assert!(b.install_receive_sa(A, AN[0], key(suite, 2), 7).is_ok());
    b.remove_channel(A);
    assert_eq!(b.receive_numbers(A, AN[0]), None);
    b.count_overruns(1);
    assert_eq!(b.counters().in_pkts_overrun, 1);
}

#[test]
fn padding_of_a_lan_is_taken_off() {
    let suite = CipherSuite::GcmAes128;
    let settings = with(A, |a| a.sci_in_tag = SciInTag::EndStation);
    let mut a = sender(settings, suite, 1);
    let mut b = receiver(SecySettings::new(B), suite, 1);
    let mut secured = protect(&mut a, &plain(10)).unwrap();
    assert!(secured.len() < 60);
    secured.resize(60, 0xee);
    assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, plain(10))));
}

#[test]
fn every_changed_bit_and_every_cut_is_refused() {
    for suite in CipherSuite::ALL {
        for protection in PROTECTIONS {
            let mut a = sender(with(A, |a| a.protection = protection), suite, 1);
            let mut b = receiver(SecySettings::new(B), suite, 1);
            let secured = protect(&mut a, &plain(50)).unwrap();
            for bit in 0..8 * secured.len() {
                let mut changed = secured.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(receive(&mut b, &changed).is_err(), "{suite} bit {bit}");
            }
            for cut in 0..secured.len() {
                assert!(receive(&mut b, &secured[..cut]).is_err(), "{suite} cut to {cut}");
            }
            assert_eq!(receive(&mut b, &secured), Ok((Delivery::Ok, plain(50))));
        }
    }
}

proptest! {
    #[test]
    fn noise_is_discarded_whatever_is_asked(
        noise in prop::collection::vec(any::<u8>(), 0..150),
        tci in any::<u8>(),
        sl in 0u8..64,
        validate in 0usize..3,
        window in 0u32..1 << 30,
        xpn in any::<bool>(),
        channel in any::<bool>(),
    ) {
        let validate_frames =
            [ValidateFrames::Disabled, ValidateFrames::Check, ValidateFrames::Strict][validate];
        let suite = if xpn { CipherSuite::GcmAesXpn128 } else { CipherSuite::GcmAes128 };
        let mut settings = replay(ReplayProtection::LateAndDuplicate, window);
        settings.validate_frames = validate_frames;
        let mut b = receiver(settings, suite, 1);
        let mut framed = [&[0; 12], &[0x88, 0xe5, tci, sl][..], &noise].concat();
        if channel && framed.len() >= 28 {
            framed[20..28].copy_from_slice(&A.to_bytes());
        }
        for frame in [&noise, &framed] {
            let result = receive(&mut b, frame);
            prop_assert!(!matches!(result, Ok((Delivery::Ok | Delivery::Delayed, _))));
        }
    }

    #[test]
    fn what_is_sent_arrives_through_any_order(
        data in prop::collection::vec(any::<u8>(), 2..200),
        start in prop::sample::select(vec![1u64, 0x7fff_fff0, 0xffff_fff0, 0x1_ffff_fff0]),
        order in Just((0usize..32).collect::<Vec<_>>()).prop_shuffle(),
        protection in prop::sample::select(&PROTECTIONS[..]),
    ) {
        let suite = CipherSuite::GcmAesXpn128;
        let mut a = sender(with(A, |a| a.protection = protection), suite, start);
        let mut b = receiver(replay(ReplayProtection::LateAndDuplicate, 64), suite, start);
        let frame = [&B.address[..], &A.address, &data].concat();
        let secured: Vec<_> = (0..32).map(|_| protect(&mut a, &frame).unwrap()).collect();
        for index in order {
            prop_assert_eq!(receive(&mut b, &secured[index]), Ok((Delivery::Ok, frame.clone())));
            prop_assert_eq!(receive(&mut b, &secured[index]), Err(Discard::Late));
        }
    }
}
