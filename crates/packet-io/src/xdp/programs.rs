//! The two XDP programs: one takes frames of a LAN, the other datagrams of a tunnel.

use super::assembler::{Assembler, Condition, Label, Register::*, Width, function};
use crate::ethertype;
use crate::kernel::bpf::Instruction;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Offsets of fields in the context of an XDP program (`struct xdp_md`).
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const RECEIVE_QUEUE: i16 = 16;
}
/// The result of a program for a packet that the kernel keeps (`XDP_PASS`).
const PASS: i32 = 2;

/// Indices of the counters of packets that passed to the kernel.
pub(super) mod counter {
    /// Packets that the gateway does not take.
    pub(in crate::xdp) const FOREIGN: u32 = 0;
    /// Packets too short for their headers.
    pub(in crate::xdp) const SHORT: u32 = 1;
    /// Packets received on a queue without a socket.
    pub(in crate::xdp) const UNSERVED: u32 = 2;
    pub(in crate::xdp) const COUNT: u32 = 3;
}

/// The maps that a program uses.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    pub(super) sockets: BorrowedFd<'a>,
    pub(super) counters: BorrowedFd<'a>,
}

/// Labels of the endings that every program has.
struct EndingLabels {
    take: Label,
    foreign: Label,
    short: Label,
}

/// Loads the packet's beginning to `R2`, its end to `R3` and the context to `R6`.
fn begin(text: &mut Assembler) -> EndingLabels {
    text.copy(R6, R1);
    text.load(Width::Word, R2, R6, context::DATA);
    text.load(Width::Word, R3, R6, context::DATA_END);
    EndingLabels { take: text.label(), foreign: text.label(), short: text.label() }
}

/// Continues if the packet has this number of bytes from `R2` on, else jumps to the ending `short`.
fn require(text: &mut Assembler, bytes: u32, labels: &EndingLabels) {
    text.copy(R4, R2);
    text.add(R4, bytes as i32);
    text.jump_if(R4, Condition::Greater, R3, labels.short);
}

fn end(mut text: Assembler, maps: Maps<'_>, labels: &EndingLabels) -> Vec<Instruction> {
    let count = text.label();
    let (out, served) = (text.label(), text.label());
    // Redirect the packet to the socket of its receive queue. If there is none, the kernel keeps
    // it.
    text.place(labels.take);
    text.set_map(R1, maps.sockets);
    text.load(Width::Word, R2, R6, context::RECEIVE_QUEUE);
    text.set(R3, PASS);
    text.call(function::REDIRECT_MAP);
    text.jump_if_word(R0, Condition::NotEqual, PASS as u32, served);
    text.store_word(R10, -4, counter::UNSERVED as i32);
    text.jump(count);

    text.place(labels.short);
    text.store_word(R10, -4, counter::SHORT as i32);
    if text.is_used(labels.foreign) {
        text.jump(count);
        text.place(labels.foreign);
        text.store_word(R10, -4, counter::FOREIGN as i32);
    }
    text.place(count);
    text.set_map(R1, maps.counters);
    text.copy(R2, R10);
    text.add(R2, -4);
    text.call(function::MAP_LOOKUP);
    text.jump_if_null(R0, out);
    text.set(R1, 1);
    text.add_atomically(R0, R1);
    text.place(out);
    text.set(R0, PASS);
    text.place(served);
    text.exit();
    text.finish()
}

/// The value that a program loads for two bytes in network order.
fn half(value: u16) -> u32 {
    u32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// A program that takes frames of these EtherTypes, behind up to two VLAN tags, or all frames if
/// none is listed.
pub(super) fn lan(ethertypes: &[u16], maps: Maps<'_>) -> Vec<Instruction> {
    const HEADER: u32 = ethertype::AT + 2;
    let mut text = Assembler::default();
    let labels = begin(&mut text);
    require(&mut text, HEADER, &labels);
    if ethertypes.is_empty() {
        text.jump(labels.take);
        return end(text, maps, &labels);
    }
    let list = text.label();
    text.load(Width::Half, R5, R2, ethertype::AT as i16);
    for _ in 0..2 {
        let tagged = text.label();
        text.jump_if_word(R5, Condition::Equal, half(ethertype::VLAN), tagged);
        text.jump_if_word(R5, Condition::NotEqual, half(ethertype::PROVIDER_VLAN), list);
        text.place(tagged);
        text.add(R2, ethertype::TAG_BYTES as i32);
        require(&mut text, HEADER, &labels);
        text.load(Width::Half, R5, R2, ethertype::AT as i16);
    }
    text.place(list);
    for &ethertype in ethertypes {
        text.jump_if_word(R5, Condition::Equal, half(ethertype), labels.take);
    }
    text.jump(labels.foreign);
    end(text, maps, &labels)
}

/// A program that takes UDP datagrams to this address and port: over IPv4 without options and
/// fragments, over IPv6 without extension headers.
pub(super) fn underlay(local: SocketAddr, maps: Maps<'_>) -> Vec<Instruction> {
    use super::headers::{ETHERNET, IPV4, IPV6, UDP, ethertype_of, protocol};
    let mut text = Assembler::default();
    let labels = begin(&mut text);
    let ip = ETHERNET as i16;
    let header = if local.is_ipv4() { IPV4 } else { IPV6 };
    require(&mut text, (ETHERNET + header + UDP) as u32, &labels);
    text.load(Width::Half, R5, R2, ethertype::AT as i16);
    let own = half(ethertype_of(local.ip()));
    text.jump_if_word(R5, Condition::NotEqual, own, labels.foreign);
    let protocol_at = match local.ip() {
        IpAddr::V4(_) => {
            text.load(Width::Byte, R5, R2, ip);
            text.jump_if_word(R5, Condition::NotEqual, 0x45, labels.foreign);
            // Fragments have the bit "more fragments" set or an offset other than 0.
            text.load(Width::Half, R5, R2, ip + 6);
            text.and(R5, half(0x3FFF) as i32);
            text.jump_if_word(R5, Condition::NotEqual, 0, labels.foreign);
            9
        }
        IpAddr::V6(_) => 6,
    };
    text.load(Width::Byte, R5, R2, ip + protocol_at);
    text.jump_if_word(R5, Condition::NotEqual, u32::from(protocol::UDP), labels.foreign);
    text.load(Width::Half, R5, R2, ip + header as i16 + 2);
    text.jump_if_word(R5, Condition::NotEqual, half(local.port()), labels.foreign);
    let (address, at) = match local.ip() {
        IpAddr::V4(ip) => (ip.octets().to_vec(), 16),
        IpAddr::V6(ip) => (ip.octets().to_vec(), 24),
    };
    for (i, word) in address.chunks_exact(4).enumerate() {
        let word = u32::from_ne_bytes(word.try_into().expect("four bytes"));
        text.load(Width::Word, R5, R2, ip + at + 4 * i as i16);
        text.jump_if_word(R5, Condition::NotEqual, word, labels.foreign);
    }
    text.jump(labels.take);
    end(text, maps, &labels)
}

#[cfg(test)]
mod tests {
    use super::super::headers::{self, LONGEST};
    use super::*;
    use crate::kernel::bpf;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    use std::os::fd::{AsFd, OwnedFd};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Verdict {
        Taken,
        Foreign,
        Short,
    }

    struct Loaded {
        program: OwnedFd,
        counters: OwnedFd,
    }

    impl Loaded {
        /// Loads a program; `None`, with the test marked as skipped, if the process may not load
        /// programs.
        fn new(write: impl FnOnce(Maps<'_>) -> Vec<Instruction>) -> Option<Self> {
            let load = || -> std::io::Result<Self> {
                let (sockets, counters) = (bpf::sockets(1)?, bpf::counters(counter::COUNT)?);
                let maps = Maps { sockets: sockets.as_fd(), counters: counters.as_fd() };
                Ok(Self { program: bpf::load(&write(maps))?, counters })
            };
            match load() {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    skip::test(format_args!("no XDP programs without root ({error})"));
                    None
                }
                answer => Some(answer.unwrap()),
            }
        }

        fn judge(&self, frame: &[u8]) -> Verdict {
            let counted = |index| bpf::counter(self.counters.as_fd(), index).unwrap();
            let all = || [counter::UNSERVED, counter::FOREIGN, counter::SHORT].map(counted);
            let before = all();
            // The queue has no socket, so packets that the program takes pass to the kernel as
            // well.
            assert_eq!(bpf::run(self.program.as_fd(), frame).unwrap(), PASS as u32);
            let after = all();
            match std::array::from_fn(|i| after[i] - before[i]) {
                [1, 0, 0] => Verdict::Taken,
                [0, 1, 0] => Verdict::Foreign,
                [0, 0, 1] => Verdict::Short,
                odd => panic!("counted {odd:?}"),
            }
        }
    }

    fn half_at(frame: &[u8], at: usize) -> Option<u16> {
        Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
    }

    /// The verdict that a LAN's program should return.
    fn judge_lan(list: &[u16], frame: &[u8]) -> Verdict {
        for tags in 0..3 {
            let Some(ethertype) = half_at(frame, 12 + 4 * tags) else { return Verdict::Short };
            if list.is_empty() {
                return Verdict::Taken;
            }
            if tags == 2 || ![ethertype::VLAN, ethertype::PROVIDER_VLAN].contains(&ethertype) {
                let listed = list.contains(&ethertype);
                return if listed { Verdict::Taken } else { Verdict::Foreign };
            }
        }
        unreachable!("the last round returns")
    }

    fn run<S: Strategy>(inputs: S, test: impl Fn(S::Value)) {
        let config = Config { cases: 1000, ..Config::default() };
        let tested = TestRunner::new(config).run(&inputs, |input| {
            test(input);
            Ok(())
        });
        tested.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn a_lans_program_takes_what_is_listed() {
        for list in [&[][..], &[0x88E5], &[0x888E, 0x88B5, 0x88E5], &[0x8100], &[1; 64]] {
            let Some(loaded) = Loaded::new(|maps| lan(list, maps)) else { return };
            let types = prop_oneof![
                Just(ethertype::VLAN),
                Just(ethertype::PROVIDER_VLAN),
                Just(0x88E5_u16),
                Just(0x888E),
                Just(0x0800),
                any::<u16>()
            ];
            let types = proptest::collection::vec(types, 4);
            run((types, 14..40_usize), |(types, len)| {
                let mut frame = vec![0x88; 12];
                for ethertype in types {
                    frame.extend(ethertype.to_be_bytes());
                    frame.extend([0, 7]);
                }
                frame.resize(len, 0xE5);
                assert_eq!(loaded.judge(&frame), judge_lan(list, &frame), "{list:x?} {frame:x?}");
            });
        }
    }

    /// The verdict that an underlay's program should return.
    fn judge_underlay(local: SocketAddr, frame: &[u8]) -> Verdict {
        let header = if local.is_ipv4() { 20 } else { 40 };
        if frame.len() < 14 + header + 8 {
            return Verdict::Short;
        }
        let (ip, udp) = frame[14..].split_at(header);
        let own = half_at(udp, 2) == Some(local.port())
            && match local.ip() {
                IpAddr::V4(address) => {
                    half_at(frame, 12) == Some(0x0800)
                        && ip[0] == 0x45
                        && (ip[6] & !0xC0, ip[7], ip[9]) == (0, 0, 17)
                        && ip[16..20] == address.octets()
                }
                IpAddr::V6(address) => {
                    half_at(frame, 12) == Some(0x86DD)
                        && ip[6] == 17
                        && ip[24..40] == address.octets()
                }
            };
        if own { Verdict::Taken } else { Verdict::Foreign }
    }

    #[test]
    fn an_underlays_program_takes_what_is_for_its_address_and_port() {
        for (from, to) in
            [("192.0.2.1:7", "192.0.2.255:4500"), ("[2001:db8::1]:7", "[fd00::ffff]:4500")]
        {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let Some(loaded) = Loaded::new(|maps| underlay(to, maps)) else { return };
            let labels = headers::DatagramAddresses { own_mac: [2; 6], next_mac: [4; 6], from, to };
            let mut bytes = [0; LONGEST];
            let len = headers::write(&mut bytes, &labels, 0xB8, b"payload").unwrap();
            let valid = [&bytes[..len], b"payload"].concat();
            assert_eq!(loaded.judge(&valid), Verdict::Taken);
            let change = (0..valid.len(), any::<u8>());
            run((14..=valid.len(), proptest::option::of(change)), |(cut, change)| {
                let mut frame = valid.clone();
                if let Some((at, byte)) = change {
                    frame[at] = byte;
                }
                frame.truncate(cut.max(change.map_or(0, |_| valid.len())));
                assert_eq!(loaded.judge(&frame), judge_underlay(to, &frame), "{frame:x?}");
            });
        }
    }
}
