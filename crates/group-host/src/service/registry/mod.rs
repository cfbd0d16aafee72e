//! All groups and devices of a controller, in memory and on disk.

mod credentials;
mod refusal;

pub use refusal::Refusal;

use super::devices::{Devices, Version1Objection};
use super::request::{CreateRequest, Described, DescribedDevice, DescribedMember};
use crate::provider::PROVIDER;
use crate::store::audit::since_1970;
use crate::store::{ControllerStore, Entry, OwnKey};
use credentials::credentials;
use lightseal_core::{Decode, Instant, Random, Writer};
use lightseal_dtls::crypto::Provider;
use lightseal_group::control::{
    Answer, AnswerMessage, DeviceKey, GroupName, MAX_MESSAGE, Reason, Request, RequestMessage,
    VERSION, VERSION_1,
};
use lightseal_group::controller::{Activation, Group, Output, Roster, Settings};
use lightseal_group::policy::Profile;
use lightseal_group::rekey::ControllerSecret;
use lightseal_group::{Controller, GroupId};
use lightseal_net::RateLimitedLog;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The groups and devices of a controller.
pub struct Registry {
    store: ControllerStore,
    devices: Arc<Devices>,
    groups: BTreeMap<GroupName, Controller>,
    provider: &'static Provider,
    rng: Random,
    outbox: Vec<(GroupId, Output)>,
    allows_version_1: bool,
    trusts_addresses: bool,
    log: RateLimitedLog,
    /// The number of times that each device's token was refused.
    refused_tokens: BTreeMap<String, u64>,
}

impl Registry {
    /// The groups and devices from a store.
    ///
    /// # Errors
    /// The store cannot be read, or holds a group that this program cannot serve.
    pub fn open(store: ControllerStore, now: Instant, rng: Random) -> Result<Self, Refusal> {
        let devices = Arc::new(Devices::new(store.devices()?));
        let provider = &PROVIDER;
        let groups = BTreeMap::new();
        let (outbox, log) = (Vec::new(), RateLimitedLog::default());
        let (trusts_addresses, allows_version_1) = (false, false);
        let mut registry = Self {
            store,
            devices,
            groups,
            provider,
            rng,
            outbox,
            allows_version_1,
            trusts_addresses,
            log,
            refused_tokens: BTreeMap::new(),
        };
        for stored in registry.store.groups()? {
            registry.host(stored.group, stored.settings, now)?;
        }
        registry.evict_forbidden(now)?;
        if registry.store.is_restored()? {
            for controller in registry.groups.values_mut() {
                rekey(controller, now, Activation::Scheduled)?;
            }
            registry.store.mark_rekeyed()?;
        }
        Ok(registry)
    }

    /// Begins a new epoch in every group that has members. Announcements made before the controller
    /// stopped may have been lost, and requests that it had received are forgotten. A member that
    /// is behind learns from the new epoch that it must ask for keys.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn rekey_all(&mut self, now: Instant) -> Result<(), Refusal> {
        for controller in self.groups.values_mut().filter(|group| !group.roster().is_empty()) {
            rekey(controller, now, Activation::Scheduled)?;
        }
        Ok(())
    }

    /// Evicts members whose device was revoked, is barred from the group or may not join it any
    /// more. This completes an eviction that was interrupted after only a part of it was stored.
    fn evict_forbidden(&mut self, now: Instant) -> Result<(), Refusal> {
        for (name, controller) in &mut self.groups {
            let may_not = |device: &&str| self.devices.may(device, name).is_none();
            let forbidden: Vec<String> = controller
                .roster()
                .iter()
                .map(|(device, _)| device)
                .filter(may_not)
                .map(str::to_owned)
                .collect();
            if forbidden.is_empty() {
                continue;
            }
            let forbidden: Vec<&str> = forbidden.iter().map(String::as_str).collect();
            tracing::warn!("group {name}: evicted: {}", forbidden.join(", "));
            let evicted = controller.evict_all(now, &forbidden);
            evicted.map_err(|_| Refusal::Failed(name.to_string()))?;
        }
        Ok(())
    }

    fn host(&mut self, group: Group, settings: Settings, now: Instant) -> Result<(), Refusal> {
        let (name, id) = (group.name.clone(), group.policy.group);
        let (store, numbers) = (self.store.of(id, &name), Box::new(self.store.numbers()));
        let rng = self.rng.fork();
        let controller = Controller::new(group, settings, self.provider, store, numbers, now, rng);
        let mut controller = controller.map_err(Refusal::Group)?;
        let (devices, group) = (Arc::clone(&self.devices), name.clone());
        controller.set_admission(Box::new(move |device| devices.may(device, &group)));
        let unusable: Vec<&str> = controller.roster().unusable().collect();
        if !unusable.is_empty() {
            tracing::warn!(
                "group {name}: members with an X25519 key of small order, which other members do not get: {}; evict them",
                unusable.join(", ")
            );
        }
        self.groups.insert(name, controller);
        Ok(())
    }

    /// The devices and their keys, for DTLS handshakes.
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// The multicast addresses of the groups.
    pub fn addresses(&self) -> impl Iterator<Item = (GroupId, SocketAddr)> {
        self.groups.values().map(|group| (group.policy().group, group.policy().address))
    }

    /// Permits devices that speak version 1 of the control protocol, in which the controller cannot
    /// tell a device from a copy of it.
    pub const fn allow_version_1(&mut self) {
        self.allows_version_1 = true;
    }

    /// Takes a request of a device that was authenticated by its token only. It may ask only for a
    /// key of its own.
    pub fn handle_by_token(&mut self, now: Instant, device: &str, from: IpAddr, request: &[u8]) {
        let Ok(RequestMessage { version, number, request: said, .. }) =
            RequestMessage::decode(request)
        else {
            return self.refuse_unread(device, request);
        };
        match said {
            _ if version == VERSION_1 => self.handle_from(now, device, from, request),
            Request::Key { nonce } => {
                let said = self.give_key(device, nonce).unwrap_or_else(Answer::Refused);
                self.answer(device, (version, number), said);
            }
            _ => self.answer(device, (version, number), Answer::Refused(Reason::NotUnderstood)),
        }
    }

    /// Trusts the addresses that devices state in joins to groups of `axiom-1.2`. Without this call
    /// [`Self::handle_from`] compares them with the source address of the request.
    pub const fn trust_addresses(&mut self) {
        self.trusts_addresses = true;
    }

    /// Takes a request of a device that came from the address `from`. In `axiom-1.2` members are
    /// identified by their addresses, so a device that claims the address of another one could keep
    /// that device out of the group.
    pub fn handle_from(&mut self, now: Instant, device: &str, from: IpAddr, request: &[u8]) {
        if let Some((head, claimed)) = self.claimed_address(request)
            && !self.trusts_addresses
            // A device on the controller's own machine may have any address.
            && !from.to_canonical().is_loopback()
            && claimed.to_canonical() != from.to_canonical()
        {
            if let Some(count) = self.log.due() {
                tracing::warn!(
                    "device {device:?} wants to join with address {claimed}, but sends from {from} \
                     ({count} since the last line)"
                );
            }
            return self.answer(device, head, Answer::Refused(Reason::AddressTaken));
        }
        self.handle(now, device, request);
    }

    /// The address in a join to a group of `axiom-1.2`, and the version and number of the request.
    fn claimed_address(&self, request: &[u8]) -> Option<((u8, u32), IpAddr)> {
        let RequestMessage { version, number, request: said, .. } =
            RequestMessage::decode(request).ok()?;
        let Request::Join { name, address, .. } = said else { return None };
        let profile = self.groups.get(&name)?.policy().profile;
        (profile == Profile::Axiom12).then_some(((version, number), address))
    }

    /// Takes a request of a device to one of the groups. Bytes without a valid request header are
    /// ignored.
    pub fn handle(&mut self, now: Instant, device: &str, request: &[u8]) {
        let Ok(RequestMessage { version, number, request: said, .. }) =
            RequestMessage::decode(request)
        else {
            return self.refuse_unread(device, request);
        };
        let refused = |reason| Answer::Refused(reason);
        let objection = self.devices.objection_to_version_1(device);
        if version == VERSION_1 && (objection.is_some() || !self.allows_version_1) {
            if let Some(count) = self.log.due() {
                let remedy = match objection {
                    Some(Version1Objection::Updated) => {
                        "but spoke version 2 before: is there a copy of its token or state?"
                    }
                    Some(Version1Objection::LimitedToken) => {
                        "in which the limits of its token do not count: update it, or give it a token \
                         without limits"
                    }
                    None => "update it, or permit such devices with --allow-version-1",
                };
                tracing::warn!(
                    "device {device:?} speaks version 1 of the control protocol: {remedy} \
                     ({count} since the last line)"
                );
            }
            return self.answer(device, (version, number), refused(Reason::NotNow));
        }
        let name = match &said {
            Request::Join { name, .. } => Some(name.clone()),
            _ => said.group().and_then(|id| self.name_of(&id)),
        };
        let may = name.as_ref().and_then(|name| self.devices.may(device, name));
        let is_barred = name.as_ref().is_some_and(|name| self.devices.is_barred(device, name));
        let found = name.and_then(|name| self.groups.get_mut(&name)).zip(may);
        let Some((controller, may)) = found else {
            let is_new = version == VERSION;
            let reason = if is_barred && is_new { Reason::Evicted } else { Reason::NoSuchGroup };
            return self.answer(device, (version, number), refused(reason));
        };
        controller.handle(now, device, may, request);
    }

    /// Refuses a malformed request, if at least its header can be read.
    fn refuse_unread(&mut self, device: &str, request: &[u8]) {
        let Some((version, number)) = RequestMessage::head(request) else { return };
        if let Some(count) = self.log.due() {
            tracing::warn!(
                "device {device:?} sent a malformed request ({count} since the last line)"
            );
        }
        let reason = if version == VERSION { Reason::NotUnderstood } else { Reason::NotNow };
        self.answer(device, (version, number), Answer::Refused(reason));
    }

    fn answer(&mut self, device: &str, (version, number): (u8, u32), said: Answer) {
        let mut answer = Zeroizing::new(vec![0; MAX_MESSAGE]);
        let mut w = Writer::new(&mut answer);
        let written = AnswerMessage { number, answer: said }.write_as(&mut w, version);
        let len = if written.is_ok() { w.len() } else { 0 };
        answer.truncate(len);
        self.outbox.push((GroupId([0; 16]), Output::Answer { device: device.into(), answer }));
    }

    /// Gives a device a key of its own for its token. The key is stored before it is sent, and sent
    /// again if the device asks with the same nonce.
    fn give_key(&mut self, device: &str, nonce: [u8; 16]) -> Result<Answer, Reason> {
        let mut devices = self.devices.write();
        let known = devices.get(device).ok_or(Reason::NotAMember)?;
        let told = |own: &OwnKey| {
            let OwnKey { id, key, .. } = own;
            Ok(Answer::Key(DeviceKey { id: *id, key: key.clone() }))
        };
        if let Some(own) = known.own.iter().find(|own| own.nonce == nonce) {
            return told(own);
        }
        let refusal = if known.uses == Some(0) {
            Some((Reason::TokenUsed, "token refused: used up"))
        } else if known.expires_at.is_some_and(|at| at <= since_1970().as_secs()) {
            Some((Reason::TokenExpired, "token refused: expired"))
        } else {
            None
        };
        if let Some((reason, event)) = refusal {
            let count = self.refused_tokens.entry(device.into()).or_default();
            *count += 1;
            // A device that keeps asking is logged only at counts that are powers of two, so that
            // it does not displace other entries of the log.
            if !count.is_power_of_two() {
                return Err(reason);
            }
            tracing::warn!(
                "device {device:?}: {reason} ({count} times); is there a copy of its token?"
            );
            let logged = self.store.log(&Entry::new(event).of(device));
            return Err(if logged.is_ok() { reason } else { Reason::NotNow });
        }
        let mut own = OwnKey { id: self.rng.array(), nonce, key: Zeroizing::new([0; 32]) };
        getrandom::fill(&mut *own.key).map_err(|_| Reason::NotNow)?;
        let mut changed = known.clone();
        changed.uses = changed.uses.map(|uses| uses - 1);
        changed.add_own_key(own.clone());
        let entry = Entry::new("token used").of(device);
        self.store.put_device(device, Some(known), &changed, &entry).map_err(|error| {
            tracing::error!("device {device:?}: {error}");
            Reason::NotNow
        })?;
        devices.put(device, changed);
        told(&own)
    }

    /// Logs that a copy of a device was detected.
    pub fn note_clone(&self, group: &GroupId, device: &str, reason: Reason) {
        let found = self.groups.values().find(|controller| controller.policy().group == *group);
        let Some(controller) = found else { return };
        let clones = controller.roster().get(device).map_or(1, |member| member.clones);
        // A copy that keeps asking is logged only at counts that are powers of two.
        if !clones.is_power_of_two() {
            return;
        }
        let name = controller.name();
        tracing::warn!(
            "group {name}: there is a copy of device {device:?}, refused since {reason}"
        );
        let entry =
            Entry::new("copy refused").within(name).of(device).with_detail(&reason.to_string());
        if let Err(error) = self.store.log(&entry) {
            tracing::error!("the audit log: {error}");
        }
    }

    /// The last entries of the log, optionally only those of one group or one device.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn read_log(
        &self,
        most: usize,
        group: Option<&str>,
        device: Option<&str>,
    ) -> Result<Vec<Entry>, Refusal> {
        let fits = |wanted: Option<&str>, has: &Option<String>| {
            wanted.is_none() || wanted == has.as_deref()
        };
        let is_wanted = |entry: &Entry| fits(group, &entry.group) && fits(device, &entry.device);
        Ok(self.store.read_log(most, is_wanted)?)
    }

    fn name_of(&self, id: &GroupId) -> Option<GroupName> {
        let mut groups = self.groups.iter();
        groups.find_map(|(name, group)| (group.policy().group == *id).then(|| name.clone()))
    }

    fn controller(&mut self, group: &str) -> Result<&mut Controller, Refusal> {
        let missing = || Refusal::NoGroup(group.into());
        let name = GroupName::new(group).ok_or_else(missing)?;
        self.groups.get_mut(&name).ok_or_else(missing)
    }

    /// Creates a group.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn create(&mut self, now: Instant, create: &CreateRequest) -> Result<Described, Refusal> {
        let name =
            GroupName::new(&create.name).ok_or_else(|| Refusal::Name(create.name.clone()))?;
        if self.groups.contains_key(&name) {
            return Err(Refusal::Exists(create.name.clone()));
        }
        let mut group = GroupId(self.rng.array());
        // The alias should be unique among the groups, so that members can tell the groups apart by
        // it (Axiom, section 6.1).
        let taken = |id: &GroupId, groups: &BTreeMap<GroupName, Controller>| {
            groups.values().any(|group| group.policy().group.alias() == id.alias())
        };
        for _ in 0..64 {
            if !taken(&group, &self.groups) {
                break;
            }
            group = GroupId(self.rng.array());
        }
        let policy = create.policy(group, &mut self.rng).map_err(Refusal::Request)?;
        let settings = create.settings().map_err(Refusal::Request)?;
        // The policy is checked before anything is written.
        Controller::check(&policy, self.provider).map_err(Refusal::Group)?;
        let seed = Zeroizing::new(self.rng.array());
        let secret = ControllerSecret::from_seed(&seed);
        let keys = self.store.create(&name, &policy, &secret, &settings, &mut self.rng)?;
        let group = Group { name: name.clone(), policy, keys, roster: Roster::default() };
        self.host(group, settings, now)?;
        self.show(name.as_str())
    }

    /// Removes a group. Its members are not notified, and get no more keys.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn remove(&mut self, group: &str) -> Result<(), Refusal> {
        let controller = self.controller(group)?;
        let (name, id) = (controller.name().clone(), controller.policy().group);
        self.store.remove_group(&name, &id)?;
        self.groups.remove(&name);
        Ok(())
    }

    /// Describes all groups.
    pub fn list(&self) -> Vec<Described> {
        self.groups.values().map(|group| Described::of(group, false)).collect()
    }

    /// Describes a group and its members.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn show(&mut self, group: &str) -> Result<Described, Refusal> {
        Ok(Described::of(self.controller(group)?, true))
    }

    /// Describes all devices.
    pub fn list_devices(&self) -> Vec<DescribedDevice> {
        let devices = self.devices.read();
        let described = devices.iter().map(|(name, device)| DescribedDevice {
            device: name.clone(),
            sender: device.may.sender,
            listener: device.may.listener,
            groups: device.groups.iter().map(ToString::to_string).collect(),
            evicted_from: device.barred.iter().map(ToString::to_string).collect(),
            member_of: self.groups_of(name),
            uses_left: device.uses,
            expires_at: device.expires_at,
            credentials: credentials(name, device),
        });
        described.collect()
    }

    /// Removes a device and evicts it from all groups.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn revoke(&mut self, now: Instant, device: &str) -> Result<(), Refusal> {
        let known = self.devices.read().get(device).cloned();
        let known = known.ok_or_else(|| Refusal::NoDevice(device.into()))?;
        self.store.remove_device(device, &known)?;
        self.devices.write().remove(device);
        let mut failed = Vec::new();
        for controller in self.groups.values_mut() {
            // If the store of one group fails, the device is still evicted from the other groups.
            if controller.evict(now, device).is_err() {
                failed.push(controller.name().to_string());
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(Refusal::Failed(failed.join(", "))) }
    }

    /// Evicts a device from a group at once, and bars it until it is readmitted.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn evict(&mut self, now: Instant, group: &str, device: &str) -> Result<Described, Refusal> {
        let name = self.controller(group)?.name().clone();
        // The device is barred first, so that it cannot join again in between.
        let is_known = self.bar(device, &name, true)?;
        let evicted = self.controller(group)?.evict(now, device);
        match evicted {
            Err(_) => Err(Refusal::Failed(group.into())),
            Ok(false) if !is_known => Err(Refusal::NoMember(device.into(), group.into())),
            Ok(_) => self.show(group),
        }
    }

    /// Readmits a device that was evicted, or that must wait because it has joined too often.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn readmit(&mut self, now: Instant, group: &str, device: &str) -> Result<(), Refusal> {
        let name = self.controller(group)?.name().clone();
        if !self.bar(device, &name, false)? {
            return Err(Refusal::NoDevice(device.into()));
        }
        self.controller(group)?.readmit(now, device);
        Ok(())
    }

    /// Bars a device from a group, or lifts the bar. Returns false if there is no such device.
    fn bar(&self, device: &str, group: &GroupName, barred: bool) -> Result<bool, Refusal> {
        let mut devices = self.devices.write();
        let Some(known) = devices.get(device) else { return Ok(false) };
        let mut changed = known.clone();
        changed.barred.retain(|name| name != group);
        if barred {
            changed.barred.push(group.clone());
        }
        let entry = Entry::new(if barred { "evicted" } else { "readmitted" });
        let entry = entry.within(group).of(device);
        self.store.put_device(device, Some(known), &changed, &entry)?;
        devices.put(device, changed);
        Ok(true)
    }

    /// Begins a new epoch of a group.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn rekey(
        &mut self,
        now: Instant,
        group: &str,
        activation: Activation,
    ) -> Result<Described, Refusal> {
        rekey(self.controller(group)?, now, activation)?;
        self.show(group)
    }

    /// Copies the store into another directory.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn back_up(&self, directory: &std::path::Path) -> Result<(), Refusal> {
        Ok(self.store.back_up(directory)?)
    }

    /// Runs the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.groups.values_mut().for_each(|group| group.handle_timeout(now));
    }

    /// When [`Self::handle_timeout`] is to be called next; `None` if there is no timer.
    pub fn wake_at(&self) -> Option<Instant> {
        self.groups.values().filter_map(Controller::wake_at).min()
    }

    /// The next output, and the group that it comes from.
    pub fn poll(&mut self) -> Option<(GroupId, Output)> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        let id = |group: &Controller| group.policy().group;
        self.groups.values_mut().find_map(|group| Some((id(group), group.poll()?)))
    }

    /// The name of a group whose store has failed. It serves no requests until this program is
    /// restarted.
    pub fn failed(&self) -> Option<&GroupName> {
        self.groups.values().find(|group| group.has_failed()).map(Controller::name)
    }
}

impl Described {
    fn of(controller: &Controller, with_members: bool) -> Self {
        let policy = controller.policy();
        let member =
            |(device, member): (&str, &lightseal_group::controller::Member)| DescribedMember {
                device: device.to_owned(),
                listener_id: lightseal_group::ListenerId::from(member.leaf).get(),
                sender_id: member.roles.sender.map(|sender| sender.0),
                listener: member.roles.listener,
                address: member.address,
                clones: member.clones,
            };
        Self {
            name: controller.name().to_string(),
            id: policy.group.to_string(),
            address: policy.address,
            profile: policy.profile.to_string(),
            suite: policy.suite.to_string(),
            authenticity: policy.authenticity.to_string(),
            responses: policy.responses.to_string(),
            freshness: policy.freshness.to_string(),
            epoch: controller.epoch(),
            members: controller.roster().len(),
            unusable: controller.roster().unusable().map(str::to_owned).collect(),
            roster: with_members.then(|| controller.roster().iter().map(member).collect()),
            announcements: None,
        }
    }
}

fn rekey(controller: &mut Controller, now: Instant, activation: Activation) -> Result<(), Refusal> {
    let rekeyed = controller.rekey(now, activation);
    rekeyed.map_err(|_| Refusal::Failed(controller.name().to_string()))
}
