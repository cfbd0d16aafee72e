//! The device's own key in its store, which the controller gave it for its token.

use crate::service::own_identity;
use crate::store::{MemberStore, StoreError};
use lightseal_core::Random;
use lightseal_dtls::{ConfigError, Psk};
use lightseal_group::control::DeviceKey;
use zeroize::Zeroizing;

/// The names of the device's own key, preceded by its ID, and of the nonce with which it was
/// requested.
const OWN_KEY: &str = "key";
const KEY_NONCE: &str = "key nonce";

/// The key in its stored form, if the device has one.
pub(super) fn stored(store: &MemberStore) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
    store.value(OWN_KEY)
}

/// Reads the key from its stored form.
pub(super) fn read(device: &str, stored: &[u8]) -> Result<Result<Psk, ConfigError>, StoreError> {
    match stored.split_first_chunk::<8>() {
        Some((id, key)) if key.len() == 32 => Ok(Psk::external(&own_identity(device, id), key)),
        _ => Err(StoreError::Damaged("its key")),
    }
}

/// Stores the key.
pub(super) fn keep(
    store: &MemberStore,
    device: &str,
    own: &DeviceKey,
) -> Result<Result<Psk, ConfigError>, StoreError> {
    let stored = Zeroizing::new([&own.id[..], &own.key[..]].concat());
    store.put_value(OWN_KEY, &stored)?;
    Ok(Psk::external(&own_identity(device, &own.id), &*own.key))
}

/// Removes the key, so that the device asks for another one.
pub(super) fn remove(store: &MemberStore) -> Result<(), StoreError> {
    store.remove_value(OWN_KEY)?;
    store.remove_value(KEY_NONCE)
}

/// The nonce with which the device asks for its own key. It is drawn once and stored.
pub(super) fn nonce(store: &MemberStore, rng: &mut Random) -> Result<[u8; 16], StoreError> {
    let stored = store.value(KEY_NONCE)?;
    if let Some(nonce) = stored.and_then(|nonce| <[u8; 16]>::try_from(&nonce[..]).ok()) {
        return Ok(nonce);
    }
    let nonce = rng.array();
    store.put_value(KEY_NONCE, &nonce)?;
    Ok(nonce)
}
