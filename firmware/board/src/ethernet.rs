//! The Ethernet controller as a device of smoltcp.

use crate::lan9118::{FRAME_BYTES, Lan9118, Unusable};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// The controller with a buffer for one received frame and one to send.
#[derive(Debug)]
pub struct Ethernet {
    controller: Lan9118,
    received: [u8; FRAME_BYTES],
    sending: [u8; FRAME_BYTES],
}

impl Ethernet {
    /// Switches the controller on.
    ///
    /// # Errors
    /// As [`Lan9118::start`].
    pub fn start() -> Result<Self, Unusable> {
        let controller = Lan9118::start()?;
        Ok(Self { controller, received: [0; FRAME_BYTES], sending: [0; FRAME_BYTES] })
    }

    /// The MAC address.
    ///
    /// # Errors
    /// As [`Lan9118::address`].
    pub fn address(&mut self) -> Result<[u8; 6], Unusable> {
        self.controller.address()
    }

    /// Receives frames to a multicast address too.
    ///
    /// # Errors
    /// As [`Lan9118::listen_to`].
    pub fn listen_to(&mut self, multicast: [u8; 6]) -> Result<(), Unusable> {
        self.controller.listen_to(multicast)
    }

    /// Whether a frame has been received.
    pub fn has_frame(&self) -> bool {
        self.controller.has_frame()
    }

    /// The next received frame, with room for an answer. A frame stays in the controller while there
    /// is no such room.
    pub fn receive_frame(&mut self) -> Option<(ReceivedFrame<'_>, FrameToSend<'_>)> {
        let Self { controller, received, sending } = self;
        if !controller.has_room() {
            return None;
        }
        let len = controller.receive(received)?;
        let frame = ReceivedFrame(received.get_mut(..len)?);
        Some((frame, FrameToSend { controller, buf: sending }))
    }

    /// Room for a frame, if there is any.
    pub fn room(&mut self) -> Option<FrameToSend<'_>> {
        let Self { controller, sending, .. } = self;
        controller.has_room().then_some(FrameToSend { controller, buf: sending })
    }
}

impl Device for Ethernet {
    type RxToken<'a> = ReceivedFrame<'a>;
    type TxToken<'a> = FrameToSend<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(ReceivedFrame<'_>, FrameToSend<'_>)> {
        self.receive_frame()
    }

    fn transmit(&mut self, _now: Instant) -> Option<FrameToSend<'_>> {
        self.room()
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities.max_burst_size = Some(1);
        capabilities
    }
}

/// A received frame.
#[derive(Debug)]
pub struct ReceivedFrame<'a>(&'a mut [u8]);

impl<'a> ReceivedFrame<'a> {
    /// The bytes of the frame.
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.0
    }
}

impl RxToken for ReceivedFrame<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

/// Room for one frame to send.
#[derive(Debug)]
pub struct FrameToSend<'a> {
    controller: &'a mut Lan9118,
    buf: &'a mut [u8; FRAME_BYTES],
}

impl FrameToSend<'_> {
    /// Sends a frame of `len` bytes, which `fill` writes.
    ///
    /// # Panics
    /// If `len` exceeds [`FRAME_BYTES`].
    pub fn send<R>(self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let frame = self.buf.get_mut(..len).expect("a network stack keeps to the device's MTU");
        let result = fill(frame);
        self.controller.send(frame);
        result
    }
}

impl TxToken for FrameToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.send(len, fill)
    }
}
