//! The EtherTypes of VLAN tags, and filters that find EtherTypes behind such tags.

use std::io;

/// IEEE 802.1Q: the EtherType of a customer VLAN tag.
pub(crate) const VLAN: u16 = 0x8100;
/// IEEE 802.1ad: the EtherType of a provider VLAN tag.
pub(crate) const PROVIDER_VLAN: u16 = 0x88A8;

/// The offset in bytes of the EtherType in an untagged frame.
pub(crate) const AT: u32 = 12;
/// Length in bytes of a VLAN tag.
pub(crate) const TAG_BYTES: u32 = 4;
/// The largest number of EtherTypes in one filter.
pub(crate) const MAX: usize = 64;

/// The offset at which a filter reads the packet type (`PACKET_HOST` and so on).
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// A classic BPF program that keeps no frame.
pub(crate) const NOTHING: libc::sock_filter =
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };

/// A classic BPF program that keeps frames of these EtherTypes, or all frames if none is listed,
/// but no frame that the host itself sends. The kernel has removed the outer VLAN tag when the
/// filter sees a frame; the program looks behind up to two more.
pub(crate) fn filter(ethertypes: &[u16]) -> io::Result<Vec<libc::sock_filter>> {
    if ethertypes.len() > MAX {
        let message = "more than 64 EtherTypes";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let load = |at| instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, at);
    let equals = |value: u16, yes, no| {
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, u32::from(value))
    };
    let answer = |bytes| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    let mut program = vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, PACKET_TYPE),
        equals(libc::PACKET_OUTGOING.into(), 0, 1),
        answer(0),
    ];
    if ethertypes.is_empty() {
        program.push(answer(u32::MAX));
        return Ok(program);
    }
    program.push(load(AT));
    // Each load reads the type of a tag. If it is no VLAN tag, the program goes on with the list.
    for deeper in 1..=2_u8 {
        let to_list = (2 - deeper) * 3 + 1;
        program.push(equals(VLAN, 1, 0));
        program.push(equals(PROVIDER_VLAN, 0, to_list));
        program.push(load(AT + u32::from(deeper) * TAG_BYTES));
    }
    for (i, &ethertype) in ethertypes.iter().enumerate() {
        // The instructions "drop" and "keep" follow the list.
        let to_keep = (ethertypes.len() - i) as u8;
        program.push(equals(ethertype, to_keep, 0));
    }
    program.extend([answer(0), answer(u32::MAX)]);
    Ok(program)
}

/// A classic BPF program that returns a hash of the source address, by which the kernel gives all
/// frames of one sender to the same socket.
pub(crate) fn by_sender() -> [libc::sock_filter; 4] {
    const SOURCE_END: u32 = 8;
    // The program of a fanout group sees a frame without its Ethernet header (SKF_LL_OFF refers
    // back to it).
    let at = (libc::SKF_LL_OFF as u32).wrapping_add(SOURCE_END);
    [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at),
        // Addresses of one vendor differ in few bits: multiplication by 2^32 divided by the golden
        // ratio spreads them.
        instruction(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, 0, 0, 0x9E37_79B1),
        instruction(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 16),
        instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ]
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(program: &[libc::sock_filter], frame: &[u8]) -> bool {
        keeps_of(libc::PACKET_OTHERHOST, program, frame)
    }

    /// An interpreter of the few instructions that are used here.
    fn keeps_of(packet_type: u8, program: &[libc::sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) & 7 {
                libc::BPF_LD if step.k == PACKET_TYPE => accumulator = packet_type.into(),
                libc::BPF_LD => {
                    let from = step.k as usize;
                    let Some(bytes) = frame.get(from..from + 2) else { return false };
                    accumulator = u32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
                }
                libc::BPF_JMP => {
                    at += usize::from(if accumulator == step.k { step.jt } else { step.jf });
                }
                _ => return step.k != 0,
            }
        }
    }

    fn frame(types: &[u16]) -> Vec<u8> {
        let mut frame = vec![0xEE; 12];
        for (i, ethertype) in types.iter().enumerate() {
            frame.extend(ethertype.to_be_bytes());
            if i + 1 < types.len() {
                frame.extend([0, 7]);
            }
        }
        frame
    }

    #[test]
    fn listed_types_pass_behind_up_to_two_tags_in_sight() {
        for list in [&[0x88E5][..], &[0x888E, 0x88E5], &[0x88E5, 0x888E, 0x88B5]] {
            let program = filter(list).unwrap();
            for tags in [&[][..], &[VLAN], &[PROVIDER_VLAN, VLAN], &[VLAN, PROVIDER_VLAN]] {
                for (ethertype, kept) in [(0x88E5, true), (0x0800, false), (0xEEEE, false)] {
                    let types = [tags, &[ethertype]].concat();
                    assert_eq!(keeps(&program, &frame(&types)), kept, "{types:x?} {list:x?}");
                }
            }
            assert!(!keeps(&program, &frame(&[VLAN, VLAN, VLAN, 0x88E5])));
            assert!(!keeps(&program, &frame(&[])), "too short");
        }
    }

    #[test]
    fn what_the_host_sends_never_passes() {
        for list in [&[][..], &[0x88E5], &[0x88E5; MAX]] {
            let program = filter(list).unwrap();
            for (packet_type, kept) in [
                (libc::PACKET_HOST, true),
                (libc::PACKET_MULTICAST, true),
                (libc::PACKET_OTHERHOST, true),
                (libc::PACKET_OUTGOING, false),
            ] {
                assert_eq!(keeps_of(packet_type, &program, &frame(&[0x88E5])), kept);
            }
        }
    }

    #[test]
    fn the_list_has_edges() {
        assert!(filter(&[0x88E5; MAX + 1]).is_err());
        assert!(keeps(&filter(&[]).unwrap(), &frame(&[0x0800])), "no list is every type");
        assert!(!keeps(&[NOTHING], &frame(&[0x88E5])));
        let program = filter(&[0x88E5; MAX]).unwrap();
        assert!(keeps(&program, &frame(&[0x88E5])) && !keeps(&program, &frame(&[0x0800])));
    }
}
