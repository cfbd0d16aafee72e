//! Rows: how an association is kept, whatever keeps it.

use super::key::StateKey;
use lightseal_dtls::{ConnectionId, Marks, SavedAssociation};
use zeroize::Zeroizing;

/// The number of an association in the store. None is used twice in one run.
pub(super) type RowId = u64;
/// The highest number that a row may have: far above what a store ever counts to, and far below what
/// cannot be counted on from. A row with a higher one is damaged.
pub(super) const MOST_ROW_ID: RowId = 1 << 62;
/// A hash of a peer's key and name.
pub(super) type PeerHash = [u8; 32];
/// What a peer has presented ([`Evidence`](lightseal_pki::Evidence) as bytes).
pub(super) type Chain = Vec<u8>;

/// A version of a row, and the run of a process that has written it. The version alone does not say
/// enough: in a database that was rolled back, or was copied, two processes write the same version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) version: u64,
    /// A number that the run has drawn at random; 0 in a directory, which one process has at a time.
    pub(super) writer: i64,
}

/// An association from the store.
#[derive(Debug)]
pub(crate) struct Row {
    pub(super) id: RowId,
    /// The revision of the row, whose version its marks state too.
    pub(super) revision: Revision,
    /// The association; `None` if the row is damaged.
    pub(super) saved: Option<SavedAssociation>,
    /// The port from which the service saw its messages; 0 if it has seen none.
    pub(super) service_port: u16,
    /// Its peer, if it had presented a chain, and the chain.
    pub(super) peer: Option<PeerHash>,
    pub(super) chain: Option<Chain>,
    /// How many bytes it takes in the store, if that is known.
    pub(super) bytes: u64,
}

impl Row {
    /// The association; `None` if the row is damaged.
    pub(crate) const fn saved(&self) -> Option<&SavedAssociation> {
        self.saved.as_ref()
    }
}

/// A change of a row.
#[derive(Debug)]
pub(super) enum Change {
    Save(Save),
    /// The row of this revision goes.
    Remove {
        revision: Revision,
    },
}

/// A row that is written.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) saved: Box<SavedAssociation>,
    pub(super) service_port: u16,
    /// The peer, if it has presented a chain in this run or an earlier one.
    pub(super) peer: Option<PeerHash>,
    /// The connection IDs that the peer uses, if the association has any, and their slot.
    pub(super) ids: Vec<ConnectionId>,
    pub(super) slot: u8,
    /// What the store has of this row; `None` if the row is not in the store yet.
    pub(super) replaces: Option<Revision>,
}

impl Change {
    /// This change, where `former` was not written: its state is still to be written if this change
    /// has none. `None` if nothing is left to be done.
    pub(super) fn in_place_of(self, former: Self) -> Option<Self> {
        let Self::Save(former) = former else { return Some(self) };
        match self {
            Self::Save(new) => {
                let has_state = new.saved.state().is_some();
                let saved = if has_state {
                    new.saved
                } else {
                    Box::new(former.saved.with(new.saved.marks))
                };
                Some(Self::Save(Save { saved, replaces: former.replaces, ..new }))
            }
            Self::Remove { .. } => former.replaces.map(|revision| Self::Remove { revision }),
        }
    }
}

/// What the rows of associations take in a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The number of associations.
    pub(super) rows: u64,
    /// Keys and values.
    pub(super) stored: u64,
    /// What the trees take besides.
    pub(super) index: u64,
}

/// Seals the state of a row, with its peer; `None` if the state has not changed.
///
/// # Errors
///
/// If there is no randomness.
pub(super) fn seal(
    key: &StateKey,
    id: RowId,
    save: &Save,
) -> Result<Option<Vec<u8>>, getrandom::Error> {
    let Some(state) = save.saved.state() else { return Ok(None) };
    let mut plain = Zeroizing::new(Vec::with_capacity(33 + state.len()));
    plain.push(save.peer.is_some().into());
    plain.extend_from_slice(save.peer.as_ref().map_or(&[], |peer| &peer[..]));
    plain.extend_from_slice(state);
    key.seal(id, &plain).map(Some)
}

/// Opens what [`seal`] has sealed; `None` if it is anything else.
pub(super) fn open(
    key: &StateKey,
    id: RowId,
    marks: Marks,
    sealed: &[u8],
) -> Option<(SavedAssociation, Option<PeerHash>)> {
    if id > MOST_ROW_ID {
        return None;
    }
    let plain = key.open(id, sealed)?;
    let (peer, state) = match plain.split_first()? {
        (0, state) => (None, state),
        (1, rest) => {
            let (peer, state) = rest.split_first_chunk()?;
            (Some(*peer), state)
        }
        _ => return None,
    };
    Some((SavedAssociation::new(marks, state.to_vec()), peer))
}
