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
    frames: u64,
}

impl Ethernet {
    /// Switches the controller on.
    ///
    /// # Errors
    /// As [`Lan9118::start`].
    pub fn start() -> Result<Self, Unusable> {
        let controller = Lan9118::start()?;
        Ok(Self { controller, received: [0; FRAME_BYTES], sending: [0; FRAME_BYTES], frames: 0 })
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

    /// The number of frames that were received.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether a frame has been received.
    pub fn has_frame(&self) -> bool {
        self.controller.has_frame()
    }
}

impl Device for Ethernet {
    type RxToken<'a> = ReceivedFrame<'a>;
    type TxToken<'a> = FrameToSend<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(ReceivedFrame<'_>, FrameToSend<'_>)> {
        let Self { controller, received, sending, frames } = self;
        if !controller.has_room() {
            return None;
        }
        let len = controller.receive(received)?;
        *frames += 1;
        let frame = ReceivedFrame(received.get(..len)?);
        Some((frame, FrameToSend { controller, buf: sending }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<FrameToSend<'_>> {
        let Self { controller, sending, .. } = self;
        controller.has_room().then_some(FrameToSend { controller, buf: sending })
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
pub struct ReceivedFrame<'a>(&'a [u8]);

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

impl TxToken for FrameToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let frame = self.buf.get_mut(..len).expect("smoltcp keeps to the device's MTU");
        let result = fill(frame);
        self.controller.send(frame);
        result
    }
}
