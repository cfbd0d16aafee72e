//! How messages begin.

use super::refusal::Refusal;
use super::{MAX_DEPTH, VERSION};
use crate::GroupId;
use lightseal_core::{DecodeError, Reader};

/// The second byte of a rekey message, its kind.
pub(super) const REKEY: u8 = 1;

/// Whether a rekey message that a member cannot check states a later epoch than the member's. If so,
/// the member should ask the controller for its new keys.
///
/// # Errors
/// The message is malformed, or for another group.
pub(crate) fn states_later_epoch(
    message: &[u8],
    (group, epoch): (&GroupId, u64),
) -> Result<bool, Refusal> {
    let (alias, stated) = read_head(message).map_err(Refusal::Malformed)?;
    if alias != group.alias() {
        return Err(Refusal::OtherGroup);
    }
    Ok(stated > epoch)
}

/// The alias and the epoch at the start of a rekey message, whose rest may be anything.
fn read_head(message: &[u8]) -> Result<(u8, u64), DecodeError> {
    let mut reader = Reader::new(message);
    read_kind(&mut reader, REKEY)?;
    let [alias, _flags] = reader.array()?;
    Ok((alias, reader.u64()?))
}

/// Reads the version and the kind at the start of every message.
pub(super) fn read_kind(reader: &mut Reader<'_>, kind: u8) -> Result<(), DecodeError> {
    match reader.array()? {
        [VERSION, stated] if stated == kind => Ok(()),
        [VERSION, _] => Err(DecodeError::invalid("kind of message")),
        _ => Err(DecodeError::invalid("version")),
    }
}

/// Reads the number of levels of a tree above its leaves.
pub(super) fn read_depth(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    let depth = reader.u8()?;
    if (1..=MAX_DEPTH).contains(&depth) {
        Ok(depth)
    } else {
        Err(DecodeError::invalid("depth of the tree"))
    }
}
