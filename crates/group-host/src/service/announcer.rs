//! Sends the announcements of groups (rekeys and lists of senders) by multicast over the interface
//! of the groups' network. Sockets are opened again when an interface with the same name is
//! recreated.

use lightseal_group::GroupId;
use lightseal_net::multicast::{self, Interface};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;

/// The maximum number of a group's announcements that wait until they can be sent: enough for the
/// newest rekey and the one before it. A member that misses more asks the controller.
const WAITING: usize = 8;

/// Counters of a group's announcements since the controller was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcements {
    /// Datagrams sent, including repetitions.
    pub sent: u64,
    /// Datagrams that could not be sent. They will be sent again later.
    pub failed: u64,
    /// Why the last announcement could not be sent; `None` after one was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The announcer's state for one group.
struct GroupAnnouncements {
    address: SocketAddr,
    socket: Option<UdpSocket>,
    announcements: Announcements,
    waiting: Vec<Vec<u8>>,
}

/// Sends announcements to all groups.
pub(super) struct Announcer {
    interface: Interface,
    local: IpAddr,
    hops: u8,
    audiences: BTreeMap<GroupId, GroupAnnouncements>,
    is_missing: bool,
}

impl Announcer {
    /// An announcer that sends over `interface`, from the address `local` if that has the address
    /// family of the group.
    pub(super) const fn new(interface: Interface, local: IpAddr, hops: u8) -> Self {
        Self { interface, local, hops, audiences: BTreeMap::new(), is_missing: false }
    }

    /// Sends an announcement to a group, now or as soon as possible.
    pub(super) fn announce(&mut self, group: GroupId, address: SocketAddr, datagram: &[u8]) {
        let (interface, local, hops) = (&self.interface, self.local, self.hops);
        let audience = self.audiences.entry(group).or_insert_with(|| GroupAnnouncements {
            address,
            socket: None,
            announcements: Announcements::default(),
            waiting: Vec::new(),
        });
        if let Err(error) = audience.send(interface, local, hops, datagram) {
            audience.has_failed(group, interface, &error);
            // A repetition of a waiting datagram need not wait as well.
            if !audience.waiting.iter().any(|waiting| waiting == datagram) {
                if audience.waiting.len() == WAITING {
                    audience.waiting.remove(0);
                }
                audience.waiting.push(datagram.to_vec());
            }
        }
    }

    /// Adapts to changes of the interface, and sends again what could not be sent.
    pub(super) fn look(&mut self) {
        match Interface::named(self.interface.name()) {
            Ok(found) => {
                if found.index() != self.interface.index() {
                    tracing::info!("interface {found} was recreated: announcements use it again");
                    self.audiences.values_mut().for_each(|audience| audience.socket = None);
                }
                (self.interface, self.is_missing) = (found, false);
            }
            Err(_) => {
                if !std::mem::replace(&mut self.is_missing, true) {
                    let name = self.interface.name();
                    tracing::error!(
                        "interface {name} is gone: new keys cannot be announced to groups"
                    );
                }
                return;
            }
        }
        for (group, audience) in &mut self.audiences {
            for datagram in std::mem::take(&mut audience.waiting) {
                match audience.send(&self.interface, self.local, self.hops, &datagram) {
                    Ok(()) => tracing::info!("group {group}: sent a delayed announcement"),
                    Err(error) => {
                        audience.note(&self.interface, &error);
                        audience.waiting.push(datagram);
                    }
                }
            }
        }
    }

    /// The counters of a group's announcements.
    pub(super) fn announcements(&self, group: &GroupId) -> Announcements {
        self.audiences.get(group).map_or_else(Announcements::default, |a| a.announcements.clone())
    }

    /// The groups whose last announcement could not be sent, with the reasons.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&GroupId, &str)> {
        self.audiences.iter().filter_map(|(group, audience)| {
            Some((group, audience.announcements.failure.as_deref()?))
        })
    }

    /// Removes the state of all groups except those for which `is_one` holds.
    pub(super) fn forget(&mut self, is_one: impl Fn(&GroupId) -> bool) {
        self.audiences.retain(|group, _| is_one(group));
    }
}

impl GroupAnnouncements {
    fn send(
        &mut self,
        interface: &Interface,
        local: IpAddr,
        hops: u8,
        datagram: &[u8],
    ) -> io::Result<()> {
        let done = self.try_send(interface, local, hops, datagram);
        match done {
            Ok(()) => {
                self.announcements.sent += 1;
                self.announcements.failure = None;
            }
            // The next announcement opens a new socket on the interface as it is then.
            Err(_) => self.socket = None,
        }
        done
    }

    fn try_send(
        &mut self,
        interface: &Interface,
        local: IpAddr,
        hops: u8,
        datagram: &[u8],
    ) -> io::Result<()> {
        if self.socket.is_none() {
            let local: IpAddr = match (self.address, local) {
                (SocketAddr::V4(_), IpAddr::V4(_)) | (SocketAddr::V6(_), IpAddr::V6(_)) => local,
                (SocketAddr::V4(_), _) => Ipv4Addr::UNSPECIFIED.into(),
                (SocketAddr::V6(_), _) => Ipv6Addr::UNSPECIFIED.into(),
            };
            self.socket =
                Some(multicast::member_socket(SocketAddr::new(local, 0), interface, hops)?);
        }
        let Some(socket) = &self.socket else { return Ok(()) };
        // The system call is made directly, because the runtime does not know yet that a new socket
        // is writable.
        SockRef::from(socket).send_to(datagram, &self.address.into()).map(drop)
    }

    /// Counts an announcement that could not be sent, and logs the error unless it is the same as
    /// before.
    fn has_failed(&mut self, group: GroupId, interface: &Interface, error: &io::Error) {
        self.announcements.failed += 1;
        if self.note(interface, error) {
            tracing::error!(
                "group {group}: new keys were not announced over {interface} to {}: {error}",
                self.address
            );
        }
    }

    /// Stores the reason of a failure. Returns whether it differs from the last one.
    fn note(&mut self, interface: &Interface, error: &io::Error) -> bool {
        let failure = Some(format!("{interface}: {error}"));
        let is_news = self.announcements.failure != failure;
        self.announcements.failure = failure;
        is_news
    }
}
