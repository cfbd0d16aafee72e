//! The board's Ethernet controller as a device of embassy-net.

use board::ethernet::{Ethernet, FrameToSend, ReceivedFrame};
use board::lan9118::{FRAME_BYTES, Unusable};
use core::task::Context;
use embassy_net_driver::{Capabilities, Driver, HardwareAddress, LinkState, RxToken, TxToken};

/// The microseconds after which a device without a frame is looked at again.
const POLL_MICROS: u64 = 1000;

/// The controller. It is polled in each millisecond.
pub(crate) struct Device {
    ethernet: Ethernet,
    address: [u8; 6],
}

impl Device {
    pub(crate) fn start() -> Result<Self, Unusable> {
        let mut ethernet = Ethernet::start()?;
        let address = ethernet.address()?;
        Ok(Self { ethernet, address })
    }
}

impl Driver for Device {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = ToSend<'a>;

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<(Received<'_>, ToSend<'_>)> {
        let frame = self.ethernet.receive_frame();
        if frame.is_none() {
            look_again(cx);
        }
        frame.map(|(received, answer)| (Received(received), ToSend(answer)))
    }

    fn transmit(&mut self, cx: &mut Context<'_>) -> Option<ToSend<'_>> {
        let room = self.ethernet.room();
        if room.is_none() {
            look_again(cx);
        }
        room.map(ToSend)
    }

    fn link_state(&mut self, _: &mut Context<'_>) -> LinkState {
        LinkState::Up
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities.max_burst_size = Some(1);
        capabilities
    }

    fn hardware_address(&self) -> HardwareAddress {
        HardwareAddress::Ethernet(self.address)
    }
}

fn look_again(cx: &Context<'_>) {
    let at = embassy_time_driver::now() + POLL_MICROS;
    embassy_time_driver::schedule_wake(at, cx.waker());
}

/// A received frame.
pub(crate) struct Received<'a>(ReceivedFrame<'a>);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, take: F) -> R {
        take(self.0.into_bytes())
    }
}

/// Room for one frame to send.
pub(crate) struct ToSend<'a>(FrameToSend<'a>);

impl TxToken for ToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.0.send(len, fill)
    }
}
