//! What a member keeps of its peers in one epoch.

use super::InlineSuite;
use crate::SenderId;
use crate::epoch::keys::{Listener, Opener};
use crate::epoch::{Answering, EpochState, RequestWindow};
use lightseal_core::ReplayWindow;

/// What a member keeps of a sender.
pub(super) struct SenderState<S: InlineSuite> {
    pub(super) requests: RequestWindow,
    pub(super) opener: Option<Opener<S>>,
    pub(super) answering: Answering<S>,
}

impl<S: InlineSuite> SenderState<S> {
    /// The state of a sender of which no record was accepted.
    pub(super) fn unheard(state: &EpochState<S>) -> Self {
        let requests = RequestWindow { window: state.first_window(), last: None };
        Self { requests, opener: None, answering: Answering::new() }
    }
}

/// What a member keeps of the sender that `place` belongs to. If the member has not heard it yet,
/// its state is made there.
pub(super) fn state_of<'p, S: InlineSuite>(
    place: &'p mut Place<SenderId, SenderState<S>>,
    sender: SenderId,
    state: &EpochState<S>,
) -> &'p mut SenderState<S> {
    &mut place.get_or_insert_with(|| (sender, SenderState::unheard(state))).1
}

/// A place in a table: the entry of a key, or where it is put once there is one.
pub(super) type Place<K, V> = Option<(K, V)>;

/// The place of `key`: its entry, or else the first that is free; `None` if there is neither.
pub(super) fn place_of<K: PartialEq, V>(
    table: &mut [Place<K, V>],
    key: K,
) -> Option<&mut Place<K, V>> {
    let mut free = None;
    for place in table {
        match place {
            Some((known, _)) if *known == key => return Some(place),
            None if free.is_none() => free = Some(place),
            _ => {}
        }
    }
    free
}

/// What a member keeps of its peers in one epoch.
pub(super) struct PeerTable<S: InlineSuite, const SENDERS: usize, const LISTENERS: usize> {
    pub(super) senders: [Place<SenderId, SenderState<S>>; SENDERS],
    /// The replay windows of listeners' responses.
    pub(super) listeners: [Place<Listener, ReplayWindow>; LISTENERS],
}

impl<S: InlineSuite, const SENDERS: usize, const LISTENERS: usize>
    PeerTable<S, SENDERS, LISTENERS>
{
    /// A table without entries. It is no constant, which would lie in flash with all its places.
    pub(super) fn new() -> Self {
        let (senders, listeners) = (core::array::from_fn(|_| None), core::array::from_fn(|_| None));
        Self { senders, listeners }
    }
}
