//! The application's payloads: sealed at once where that is possible, queued otherwise.

use super::Connection;
use super::ids::IdExchange;
use super::mtu::PathSearch;
use super::pace::Pace;
use super::stage::Stage;
use super::update::LossMeter;
use crate::error::SendError;
use crate::record::seal::SealError;
use crate::tuning::MIN_DATAGRAM_BYTES;
use lightseal_core::Instant;
use lightseal_core::Sent;

impl Connection {
    /// Sends a payload as one record.
    ///
    /// If the handshake is complete and nothing else is due, the record is sealed into `datagram`,
    /// and the caller transmits it ([`Sent::Datagram`]). Otherwise the payload is queued, and
    /// [`poll_output`](lightseal_core::Engine::poll_output) returns its datagram when its turn has
    /// come ([`Sent::Queued`]): after the handshake (or as soon as [`Self::may_send`]), after
    /// acknowledgements, handshake messages and path messages that are due, after the payloads that
    /// are queued already, or when a probe has shown that the path carries such a datagram. Payloads
    /// are sealed in the order of the calls. Either way, poll afterwards: the time of the next
    /// wake-up may have changed.
    ///
    /// `datagram` should be as long as the datagrams that the association may send
    /// ([`Self::path_mtu`]). A payload that does not fit it is queued, so that an empty `datagram`
    /// always queues: this is for hosts that transmit at one place only, or that have several
    /// payloads at hand, of which the association then knows when it decides how long a message
    /// under shared tags waits for others.
    ///
    /// A build without the feature `send-queue` queues nothing: such a payload fails with
    /// [`SendError::QueueFull`]. Poll until nothing is due, and send it again, with a `datagram` that
    /// it fits.
    ///
    /// A queued payload that turns out to be longer than the records that the peer accepts is
    /// dropped and counted ([`SendStats::too_long`](crate::stats::SendStats::too_long)).
    ///
    /// # Errors
    /// Fails if the payload is too long, the queue is full, or the association is closed.
    pub fn send(
        &mut self,
        now: Instant,
        payload: &[u8],
        datagram: &mut [u8],
    ) -> Result<Sent, SendError> {
        self.now = self.now.max(now);
        if !self.is_open() {
            return Err(SendError::Closed);
        }
        self.awaken();
        // What may come after a payload in its datagram must not make that longer than the path
        // carries.
        let longest = datagram.len().min(self.confirmed_datagram()).min(self.path.allowance());
        if payload.len() <= self.payload_of(longest)
            && longest >= MIN_DATAGRAM_BYTES
            && self.is_quiet()
            && self.may_transmit()
            && let Some(datagram) = datagram.get_mut(..longest)
        {
            match self.seal_data(datagram, payload.len(), false, |w| w.bytes(payload)) {
                Ok(len) => {
                    self.count_sent(len);
                    self.sent_datagram(len);
                    let to = self.path.to();
                    return Ok(Sent::Datagram { len, to });
                }
                Err(SealError::Exhausted) => return Err(SendError::Closed),
                Err(SealError::Full) => {}
            }
        }
        if payload.len() > self.max_payload() {
            return Err(SendError::TooLong);
        }
        let budget = self.settings().send_buffer_bytes;
        self.queue.push(budget, self.now, payload)?;
        self.try_again_for_data();
        Ok(Sent::Queued)
    }

    /// Replaces this association's send queue with that of `former`, including the times when its
    /// payloads were queued. For a client that continues at another address of a server that did
    /// not answer.
    pub fn take_queue_of(&mut self, former: &mut Self) {
        core::mem::swap(&mut self.queue, &mut former.queue);
        former.queue.clear();
    }

    /// Whether nothing is due: the next datagram, if there is one, carries a new payload.
    ///
    /// This tells without doing any of its work what the next step would find, so that the poll
    /// after each payload costs little.
    pub(super) fn is_quiet(&self) -> bool {
        let Stage::Established(established) = &self.stage else { return false };
        self.is_open()
            && self.queue.is_empty()
            && !self.acks.is_due()
            && self.channel.flight.unsent_epoch().is_none()
            && !self.pace.get().is_some_and(Pace::is_closing_due)
            && !self.key_update.is_switch_due()
            && self.updates.is_quiet()
            && !self.loss.get().is_some_and(LossMeter::is_report_due)
            && !established.keys.is_refusal_due()
            && self.ids.get().is_none_or(IdExchange::is_quiet)
            && self.path.is_quiet()
            && self.mtu.get().is_none_or(PathSearch::is_quiet)
            && !self.is_probe_due()
    }

    /// Whether a probe of the peer is to be sent.
    pub(super) fn is_probe_due(&self) -> bool {
        self.liveness.get().is_some_and(super::liveness::Liveness::is_probe_due)
    }
}
