//! Sends frames to peers: frames of the LAN, frames that were held, and the content that the
//! control path sends. All that is dropped here is counted in [`Gateway::count_drop`].

use super::{Gateway, Route};
use crate::codepoints::{DatagramType, EncryptedContent};
use crate::counters::Reason;
use crate::fragments::{PIECE_LEN, PieceHeader, PieceLayout};
use crate::hold_queue::ReleasedFrame;
use crate::link::{Link, SEAL_OVERHEAD};
use crate::peer_set::PeerIndex;
use crate::schemes::{Outgoing, SealOutcome};
use crate::tuning::LEAST_MTU;
use core::net::SocketAddr;
use core::ops::Range;
use lightseal_core::{Instant, PacketBuf};

/// The buffers of a host, and its queue of datagrams that are ready to be sent.
pub trait Sink {
    /// A buffer that contains a frame or a datagram. The gateway gives each buffer back to the
    /// host, with [`send`](Self::send) or [`release`](Self::release).
    type Buffer;

    /// The content of a buffer.
    fn bytes<'a>(&'a self, buffer: &'a Self::Buffer) -> &'a [u8];

    /// Lets `change` work on the content of a buffer and on the room around it.
    fn with<R>(
        &mut self,
        buffer: &mut Self::Buffer,
        change: impl FnOnce(&mut PacketBuf<'_>) -> R,
    ) -> R;

    /// A buffer with these bytes; `None` if no buffer is free or there are too many bytes.
    fn allocate_with(&mut self, bytes: &[u8]) -> Option<Self::Buffer>;

    /// A copy of a buffer; `None` if no buffer is free.
    fn copy(&mut self, buffer: &Self::Buffer) -> Option<Self::Buffer>;

    /// A buffer with a copy of a part of the content; `None` if no buffer is free or the part is
    /// too long.
    fn copy_part(&mut self, buffer: &Self::Buffer, part: Range<usize>) -> Option<Self::Buffer>;

    /// Sends a datagram.
    fn send(&mut self, to: Destination, datagram: Self::Buffer);

    /// Takes back a buffer that is not needed any more.
    fn release(&mut self, buffer: Self::Buffer);
}

/// Where and how a datagram is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Destination {
    /// The peer that the datagram is for.
    pub peer: PeerIndex,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// Whether the datagram must be sent from the local port that the peer sends to; see
    /// [`Link::destination`].
    pub from_shared_port: bool,
    /// The traffic class of the IP header: DSCP and ECN.
    pub class: u8,
}

/// A reason for a drop, with the link whose counters it belongs to; without a link, it belongs to
/// the counters of the gateway.
type DropCause<'a> = (Option<&'a Link>, Reason);

/// How a frame becomes datagrams for one peer.
enum DatagramPlan {
    /// In one datagram.
    Single,
    /// In several datagrams, one for each piece.
    Pieces {
        /// The number that all pieces of the frame carry.
        number: u32,
        /// The number and the size of the pieces.
        layout: PieceLayout,
    },
}

impl Gateway {
    /// Sends a frame of the LAN to the peers that it is for. A frame whose flow a peer does not
    /// know yet may be held; see [`dispatch_released`](Self::dispatch_released).
    pub fn dispatch<S: Sink>(&self, now: Instant, lane: u8, frame: S::Buffer, sink: &mut S) {
        let Ok(mut route) = self.route_frame(now, sink.bytes(&frame)) else {
            sink.release(frame);
            return;
        };
        let mut frame = frame;
        let padding = sink.bytes(&frame).len() - route.len;
        sink.with(&mut frame, |packet| packet.take_back(padding).is_some());
        // The frame itself is sent to the last peer, and copies to the others.
        while let Some(peer) = route.peers.next() {
            if route.peers.is_empty() {
                self.send_frame(now, lane, peer, &route, frame, sink);
                return;
            }
            match sink.copy(&frame) {
                Some(copy) => self.send_frame(now, lane, peer, &route, copy, sink),
                None => self.count_drop((None, Reason::NoBuffer)),
            }
        }
        sink.release(frame);
    }

    /// Sends the frames that were held and whose flow the peer knows by now. The call is cheap
    /// while no frame is held. One of the sending threads should call it about as often as it looks
    /// for frames.
    pub fn dispatch_released<S: Sink>(&self, now: Instant, lane: u8, sink: &mut S) {
        while let Some(ReleasedFrame { peer, route, frame }) = self.next_released() {
            match sink.allocate_with(&frame) {
                Some(frame) => self.send_frame(now, lane, peer, &route, frame, sink),
                None => self.count_drop((None, Reason::NoBuffer)),
            }
        }
    }

    /// Sends the content of [`Output::Datagram`](crate::control::Output::Datagram) to a peer.
    pub fn dispatch_content<S: Sink>(
        &self,
        lane: u8,
        peer: PeerIndex,
        kind: EncryptedContent,
        content: &[u8],
        sink: &mut S,
    ) {
        let Some((link, destination)) = self.destination(peer, 0) else {
            return self.count_drop((None, Reason::NoPeer));
        };
        let Some(mut buffer) = sink.allocate_with(content) else {
            return self.count_drop((None, Reason::NoBuffer));
        };
        match sink.with(&mut buffer, |packet| link.seal_encrypted(lane, kind, packet)) {
            Ok(()) => sink.send(destination, buffer),
            // Without keys there is nothing to keep alive or to probe, so this is no loss.
            Err(_) => sink.release(buffer),
        }
    }

    /// Holds a frame without its padding until `peer` knows its flow. A frame for which there is no
    /// room is dropped and counted.
    pub fn hold(&self, now: Instant, peer: PeerIndex, route: &Route, frame: &[u8]) {
        let held = ReleasedFrame { peer, route: *route, frame: frame.to_vec() };
        if !self.hold_queue.hold(now, held) {
            self.count_drop((self.links.get(peer), Reason::HoldFull));
        }
    }

    /// Sends a frame or a copy, without padding, to one peer.
    fn send_frame<S: Sink>(
        &self,
        now: Instant,
        lane: u8,
        peer: PeerIndex,
        route: &Route,
        frame: S::Buffer,
        sink: &mut S,
    ) {
        let Some((link, destination)) = self.destination(peer, route.class) else {
            self.count_drop((None, Reason::NoPeer));
            sink.release(frame);
            return;
        };
        let mut frame = frame;
        match self.plan_datagrams(link, route) {
            Ok(DatagramPlan::Single) => {
                let sealed =
                    sink.with(&mut frame, |packet| self.seal(now, lane, link, route, packet));
                match sealed {
                    Ok(SealOutcome::Ready) => {
                        link.counters().frames_out.count(route.len);
                        sink.send(destination, frame);
                        return;
                    }
                    Ok(SealOutcome::Hold) => self.hold(now, peer, route, sink.bytes(&frame)),
                    Err(reason) => self.count_drop((Some(link), reason)),
                }
            }
            Ok(DatagramPlan::Pieces { number, layout }) => {
                let pieces = (number, layout.size);
                let sent = send_pieces(lane, (link, destination), route, pieces, &frame, sink);
                sent.unwrap_or_else(|cause| self.count_drop(cause));
            }
            Err(reason) => self.count_drop((None, reason)),
        }
        sink.release(frame);
    }

    fn destination(&self, peer: PeerIndex, class: u8) -> Option<(&Link, Destination)> {
        let link = self.links.get(peer)?;
        let (remote, from_shared_port) = link.destination()?;
        Some((link, Destination { peer, remote, from_shared_port, class }))
    }

    /// Decides whether a frame is sent in one datagram or in pieces.
    ///
    /// # Errors
    /// If the frame is longer than the longest frame that may be split.
    fn plan_datagrams(&self, link: &Link, route: &Route) -> Result<DatagramPlan, Reason> {
        let payload = link.payload();
        if route.len + SEAL_OVERHEAD + link.headers() > LEAST_MTU {
            link.note_long_frame();
        }
        let fits =
            |overhead| route.len.checked_add_signed(overhead).is_some_and(|len| len <= payload);
        let fits_one = match &route.header {
            Some(header) => {
                fits(self.scheme.max_overhead(header))
                    || fits(self.scheme.overhead_to(link.peer(), header))
            }
            None => fits(SEAL_OVERHEAD as isize + 1),
        };
        if fits_one {
            return Ok(DatagramPlan::Single);
        }
        let most = payload.saturating_sub(SEAL_OVERHEAD + PIECE_LEN);
        let layout = PieceLayout::of(route.len, most).ok_or(Reason::TooLong)?;
        Ok(DatagramPlan::Pieces { number: link.next_piece_number(), layout })
    }

    /// Makes a datagram of a frame without its padding, in place.
    fn seal(
        &self,
        now: Instant,
        lane: u8,
        link: &Link,
        route: &Route,
        packet: &mut PacketBuf<'_>,
    ) -> Result<SealOutcome, Reason> {
        match &route.header {
            Some(header) => self.scheme.seal(&Outgoing { now, lane, link, header }, packet),
            None => self.scheme.seal_other(lane, link, packet).map(|()| SealOutcome::Ready),
        }
    }

    /// The next frame that was held and may be sent now.
    fn next_released(&self) -> Option<ReleasedFrame> {
        self.hold_queue.release(self.scheme.acknowledged(), |peer, route| {
            route.header.as_ref().is_some_and(|header| self.scheme.is_flow_known(peer, header))
        })
    }

    fn count_drop(&self, (link, reason): DropCause<'_>) {
        link.map_or(&self.counters.drops, |link| &link.counters().drops).increment(reason);
    }
}

/// Sends a frame in pieces of `size` bytes, which carry the number `number`.
fn send_pieces<'a, S: Sink>(
    lane: u8,
    (link, destination): (&'a Link, Destination),
    route: &Route,
    (number, size): (u32, usize),
    frame: &S::Buffer,
    sink: &mut S,
) -> Result<(), DropCause<'a>> {
    for offset in (0..route.len).step_by(size.max(1)) {
        let end = route.len.min(offset + size);
        let piece = sink.copy_part(frame, offset..end);
        let mut piece = piece.ok_or((None, Reason::NoBuffer))?;
        let sealed =
            sink.with(&mut piece, |packet| seal_piece(lane, link, route, number, offset, packet));
        if let Err(reason) = sealed {
            sink.release(piece);
            return Err((Some(link), reason));
        }
        link.counters().frames_out.bytes.add((end - offset) as u64);
        if offset == 0 {
            link.counters().frames_out.packets.add(1);
            link.counters().split.add(1);
        }
        sink.send(destination, piece);
    }
    Ok(())
}

/// Makes a datagram of one piece of a frame, in place. `offset` is the position of the piece in the
/// frame.
fn seal_piece(
    lane: u8,
    link: &Link,
    route: &Route,
    number: u32,
    offset: usize,
    packet: &mut PacketBuf<'_>,
) -> Result<(), Reason> {
    // The casts lose nothing: `plan_datagrams` splits no frame of more than 16 384 bytes.
    let piece = PieceHeader { number, offset: offset as u16, total: route.len as u16 };
    let sealed = match &route.header {
        Some(header) if offset == 0 => PIECE_LEN + header.len(),
        Some(_) => PIECE_LEN,
        None => 0,
    };
    // A first piece that ends inside of the frame's header is encrypted as a whole.
    let sealed = if sealed > PIECE_LEN + packet.len() { 0 } else { sealed as u8 };
    packet.prepend(&piece.encode()).ok_or(Reason::NoBuffer)?;
    link.seal(lane, DatagramType::Fragment, sealed, packet)
}
