//! The credentials of devices: how devices are enrolled, and how their credentials are changed.

use super::{Refusal, Registry};
use crate::service::devices::token_identity;
use crate::service::request::{Enrol, NewToken};
use crate::store::audit::since_1970;
use crate::store::{Device, Entry};
use crate::token::{Token, is_device_name};
use lightseal_dtls::Identity;
use lightseal_group::control::{GroupName, RoleSet};
use zeroize::Zeroizing;

impl Registry {
    /// Enrols a device. It gets a token with a new key, unless the request has identities of
    /// credentials: then there is no token.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn enrol(&mut self, enrol: &Enrol) -> Result<Option<Token>, Refusal> {
        let Enrol { device, sender, listener, groups, identities, controller, uses, expires_s } =
            enrol;
        if !is_device_name(device) {
            return Err(Refusal::Name(device.clone()));
        }
        if self.devices.read().get(device).is_some() {
            return Err(Refusal::Exists(device.clone()));
        }
        let groups = groups.iter().map(|name| {
            let known = GroupName::new(name).filter(|name| self.groups.contains_key(name));
            known.ok_or_else(|| Refusal::NoGroup(name.clone()))
        });
        let groups: Vec<GroupName> = groups.collect::<Result<_, _>>()?;
        let may = RoleSet { sender: *sender, listener: *listener };
        let mut known = Device::new(may, groups);
        let mut token = None;
        if identities.is_empty() {
            let controller = controller.as_deref().unwrap_or_default();
            token = Some(self.give_token(device, &mut known, controller, *uses, *expires_s)?);
        }
        for identity in identities {
            self.check_free(device, &known, identity)?;
            known.add_identity(identity.clone());
        }
        let entry = Entry::new("enrolled").of(device).with_detail(&listed(device, &known));
        self.store.put_device(device, None, &known, &entry)?;
        self.devices.write().put(device, known);
        Ok(token)
    }

    /// Gives a device that has no token a new one.
    fn give_token(
        &self,
        name: &str,
        device: &mut Device,
        controller: &str,
        uses: Option<u32>,
        expires_s: Option<u64>,
    ) -> Result<Token, Refusal> {
        if controller.is_empty() || controller.len() > 255 {
            let reason = "the address of the controller in a token has 1 to 255 bytes";
            return Err(Refusal::Request(reason.into()));
        }
        let identity = token_identity(name);
        if let Some(other) = self.devices.read().name_of(&identity).filter(|other| *other != name) {
            return Err(Refusal::Taken(identity, other.into()));
        }
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key).map_err(|_| Refusal::Randomness)?;
        device.key = Some(key.clone());
        device.uses = uses;
        device.expires_at = expires_s.map(|s| since_1970().as_secs().saturating_add(s));
        Ok(Token { key, device: name.to_owned(), controller: controller.to_owned() })
    }

    /// Checks that an identity may become one of this device: no other device has it, and it is not
    /// that of a token.
    fn check_free(&self, name: &str, device: &Device, identity: &Identity) -> Result<(), Refusal> {
        let devices = self.devices.read();
        if let Some(other) = devices.name_of(identity).filter(|other| *other != name) {
            return Err(Refusal::Taken(identity.clone(), other.into()));
        }
        let Identity::Psk(psk) = identity else { return Ok(()) };
        // The device itself is as it will be, and may have lost its token.
        match devices.owner_of_token(psk) {
            Some(owner) if owner != name || has_token(device) => {
                Err(Refusal::Taken(identity.clone(), owner.into()))
            }
            _ => Ok(()),
        }
    }

    /// Lets a device authenticate with a further credential, which proves this identity.
    ///
    /// # Errors
    /// See [`Refusal`]. No other device has the identity.
    pub fn add_credential(&mut self, device: &str, identity: &Identity) -> Result<(), Refusal> {
        self.change_credentials(device, "credential added", identity, |registry, changed| {
            registry.check_free(device, changed, identity)?;
            changed.add_identity(identity.clone());
            Ok(())
        })
    }

    /// Lets a device authenticate only with the credential that proves this identity. Its
    /// memberships stay as they are.
    ///
    /// # Errors
    /// As [`Self::add_credential`].
    pub fn replace_credential(&mut self, device: &str, identity: &Identity) -> Result<(), Refusal> {
        self.change_credentials(device, "credential replaced", identity, |registry, changed| {
            changed.remove_token();
            changed.identities.clear();
            registry.check_free(device, changed, identity)?;
            changed.add_identity(identity.clone());
            Ok(())
        })
    }

    /// Refuses a credential of a device from now on. Its memberships stay as they are.
    ///
    /// # Errors
    /// See [`Refusal`]. The device has a credential with this identity.
    pub fn remove_credential(&mut self, device: &str, identity: &Identity) -> Result<(), Refusal> {
        self.change_credentials(device, "credential removed", identity, |_, changed| {
            if has_token(changed) && *identity == token_identity(device) {
                changed.remove_token();
            } else if !changed.identities.remove(identity) {
                return Err(Refusal::NoCredential(device.into(), identity.clone()));
            }
            Ok(())
        })
    }

    /// Replaces all credentials of a device by a new token. Its memberships stay as they are.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn new_token(&mut self, new: &NewToken) -> Result<Token, Refusal> {
        let NewToken { device, controller, uses, expires_s } = new;
        let (identity, mut token) = (token_identity(device), None);
        self.change_credentials(device, "credential replaced", &identity, |registry, changed| {
            changed.remove_token();
            changed.identities.clear();
            let given = registry.give_token(device, changed, controller, *uses, *expires_s)?;
            token = Some(given);
            Ok(())
        })?;
        token.ok_or_else(|| Refusal::NoDevice(device.clone()))
    }

    fn change_credentials(
        &mut self,
        device: &str,
        event: &str,
        identity: &Identity,
        change: impl FnOnce(&Self, &mut Device) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let known = self.devices.read().get(device).cloned();
        let known = known.ok_or_else(|| Refusal::NoDevice(device.into()))?;
        let mut changed = known.clone();
        change(self, &mut changed)?;
        let entry = Entry::new(event).of(device).with_detail(&identity.to_string());
        self.store.put_device(device, Some(&known), &changed, &entry)?;
        self.devices.write().put(device, changed);
        self.refused_tokens.remove(device);
        self.forget_requests(device);
        Ok(())
    }

    /// Forgets the requests of a device that are not carried out yet: the credential under which
    /// they came may be void. The device repeats those of its own.
    pub(crate) fn forget_requests(&mut self, device: &str) {
        self.groups.values_mut().for_each(|group| group.forget_requests(device));
    }

    /// Forgets the requests of all devices that are not carried out yet: nobody knows under which
    /// credentials they came if their associations have ended. Devices repeat those of their own.
    pub(crate) fn forget_all_requests(&mut self) {
        self.groups.values_mut().for_each(lightseal_group::Controller::forget_all_requests);
    }

    /// The names of the groups that a device is a member of.
    pub(crate) fn groups_of(&self, device: &str) -> Vec<String> {
        let member = self.groups.values().filter(|group| group.roster().get(device).is_some());
        member.map(|group| group.name().to_string()).collect()
    }
}

const fn has_token(device: &Device) -> bool {
    device.key.is_some() || !device.own.is_empty()
}

/// The identities of all credentials of a device.
pub(super) fn credentials(name: &str, device: &Device) -> Vec<Identity> {
    let token = has_token(device).then(|| token_identity(name));
    token.into_iter().chain(device.identities.iter().cloned()).collect()
}

/// The identities of all credentials of a device, for the log.
fn listed(name: &str, device: &Device) -> String {
    let all: Vec<String> = credentials(name, device).iter().map(ToString::to_string).collect();
    all.join(", ")
}
