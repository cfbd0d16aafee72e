//! Fragments of packets that are longer than a frame (RFC 4944, section 5.3).

use super::Packet;
use super::checksum::check_fcs;
use super::header::{Headers, read_mac};
use crate::topology::NodeId;
use core::time::Duration;
use lightseal_core::{Instant, Reader};
use std::collections::VecDeque;

/// Length of the uncompressed IPv6 and UDP headers in bytes, which fragment offsets include.
const HEADERS: usize = 48;
/// The unit of fragment offsets, in bytes.
const UNIT: usize = 8;

const FIRST: u8 = 0b1100_0000;
const LATER: u8 = 0b1110_0000;
const KIND: u8 = 0b1111_1000;
const FIRST_BYTES: usize = 4;
const LATER_BYTES: usize = 5;

/// How long an incomplete packet is kept (RFC 4944: at most 60 s).
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of packets that a node can reassemble at a time.
const MOST: usize = 4;

/// Cuts a payload with its compressed headers into fragments of at most `room` bytes each.
pub(super) fn cut(headers: &[u8], payload: &[u8], room: usize, tag: u16) -> Vec<Vec<u8>> {
    let size = (HEADERS + payload.len()) as u16;
    let start = |kind: u8| {
        let mut fragment = Vec::with_capacity(room);
        fragment.extend((u16::from(kind) << 8 | size).to_be_bytes());
        fragment.extend(tag.to_be_bytes());
        fragment
    };
    let whole_units = |bytes: usize| bytes / UNIT * UNIT;
    let (now, mut rest) = payload.split_at(whole_units(room - FIRST_BYTES - headers.len()));
    let mut first = start(FIRST);
    first.extend_from_slice(headers);
    first.extend_from_slice(now);
    let mut fragments = vec![first];
    while !rest.is_empty() {
        let offset = HEADERS + payload.len() - rest.len();
        let most = whole_units(room - LATER_BYTES).min(rest.len());
        let (now, after) = rest.split_at(most);
        let mut fragment = start(LATER);
        fragment.push((offset / UNIT) as u8);
        fragment.extend_from_slice(now);
        fragments.push(fragment);
        rest = after;
    }
    fragments
}

/// Reassembles packets from the frames that a node receives.
#[derive(Debug)]
pub struct Reassembly {
    making: VecDeque<PartialPacket>,
    most: usize,
}

impl Default for Reassembly {
    fn default() -> Self {
        Self::with_room(MOST)
    }
}

/// A packet whose fragments have not all arrived.
#[derive(Debug)]
struct PartialPacket {
    from: NodeId,
    tag: u16,
    begun: Instant,
    headers: Option<Headers>,
    payload: Vec<u8>,
    /// For each unit of [`UNIT`] bytes, whether it is still missing.
    missing: Vec<bool>,
}

impl Reassembly {
    /// Reassembles at most this many packets at a time, and at least one.
    pub fn with_room(packets: usize) -> Self {
        Self { making: VecDeque::new(), most: packets.max(1) }
    }

    /// Takes a frame. Returns the packet that it completes, if it does.
    pub fn take(&mut self, now: Instant, frame: &[u8]) -> Option<Packet> {
        let (here, next, body) = read_mac(check_fcs(frame)?)?;
        let mut r = Reader::new(body);
        let kind = body.first()? & KIND;
        if kind != FIRST && kind != LATER {
            let headers = Headers::read(&mut r, here, next).ok()?;
            return headers.packet(r.rest().to_vec());
        }
        let size = usize::from(r.u16().ok()? & 0x07ff);
        let tag = r.u16().ok()?;
        let (headers, offset) = match kind {
            FIRST => (Some(Headers::read(&mut r, here, next).ok()?), 0),
            _ => (None, (usize::from(r.u8().ok()?) * UNIT).checked_sub(HEADERS)?),
        };
        self.add(now, here, tag, size.checked_sub(HEADERS)?, headers, offset, r.rest())
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a fragment")]
    fn add(
        &mut self,
        now: Instant,
        from: NodeId,
        tag: u16,
        len: usize,
        headers: Option<Headers>,
        offset: usize,
        bytes: &[u8],
    ) -> Option<Packet> {
        self.making.retain(|making| now - making.begun <= REASSEMBLY_TIMEOUT);
        let same = |making: &PartialPacket| (making.from, making.tag) == (from, tag);
        let place = self.making.iter().position(same).unwrap_or_else(|| {
            if self.making.len() == self.most {
                self.making.pop_front();
            }
            let (payload, missing) = (vec![0; len], vec![true; len.div_ceil(UNIT)]);
            self.making.push_back(PartialPacket {
                from,
                tag,
                begun: now,
                headers: None,
                payload,
                missing,
            });
            self.making.len() - 1
        });
        let making = &mut self.making[place];
        making.headers = making.headers.or(headers);
        making.payload.get_mut(offset..offset + bytes.len())?.copy_from_slice(bytes);
        let units = offset / UNIT..(offset + bytes.len()).div_ceil(UNIT);
        making.missing.get_mut(units)?.fill(false);
        if making.headers.is_none() || making.missing.contains(&true) {
            return None;
        }
        let made = self.making.remove(place)?;
        made.headers?.packet(made.payload)
    }
}
