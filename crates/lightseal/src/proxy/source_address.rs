//! An address of its own for each identity, from which the service sees its messages.
//!
//! The address follows from prefix and identity by SHA-256, so it is the same after a restart and at
//! every proxy with the prefix. In a prefix with at least [`SPARSE_BITS`] free bits two identities
//! never meet. In a smaller one they can: the identity that comes second gets the next address of its
//! own sequence, and keeps it as long as the process runs.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// From this number of free bits on, a hash is unique: a million identities share an address with a
/// probability below 2^-25.
const SPARSE_BITS: u8 = 64;

/// The fewest free bits of a prefix: 256 addresses.
const LEAST_BITS: u8 = 8;

/// How many addresses are tried for one identity.
const TRIES: u16 = 256;

/// The addresses for identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePrefix {
    /// All free bits are 0.
    prefix: IpAddr,
    /// The number of bits that addresses have in common.
    bits: u8,
}

impl SourcePrefix {
    /// The number of bits in which addresses differ.
    const fn free_bits(self) -> u8 {
        match self.prefix {
            IpAddr::V4(_) => 32 - self.bits,
            IpAddr::V6(_) => 128 - self.bits,
        }
    }

    /// Whether addresses can go to a service with this address.
    pub(crate) const fn fits(self, service: IpAddr) -> bool {
        matches!(
            (self.prefix, service),
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_))
        )
    }

    /// The address number `attempt` in the sequence of an identity; `None` if no host may have it:
    /// the first and the last address of a prefix.
    fn address(self, identity: &str, attempt: u16) -> Option<IpAddr> {
        let mut hash = Sha256::new();
        hash.update(b"lightseal source address\0");
        match self.prefix {
            IpAddr::V4(prefix) => hash.update(prefix.octets()),
            IpAddr::V6(prefix) => hash.update(prefix.octets()),
        }
        hash.update([self.bits]);
        hash.update(attempt.to_be_bytes());
        hash.update(identity.as_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let mut low = [0; 16];
        low.copy_from_slice(&hash[..16]);
        let most = u128::MAX >> (128 - u32::from(self.free_bits()));
        let host = u128::from_be_bytes(low) & most;
        if host == 0 || host == most {
            return None;
        }
        Some(match self.prefix {
            // The host part has at most 24 bits.
            IpAddr::V4(prefix) => Ipv4Addr::from(u32::from(prefix) | host as u32).into(),
            IpAddr::V6(prefix) => Ipv6Addr::from(u128::from(prefix) | host).into(),
        })
    }
}

impl FromStr for SourcePrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected =
            || "expected a prefix such as 127.64.0.0/10 or fd12:3456:789a::/64".to_owned();
        let (prefix, bits) = text.split_once('/').ok_or_else(expected)?;
        let (prefix, bits): (IpAddr, u8) =
            prefix.parse().ok().zip(bits.parse().ok()).ok_or_else(expected)?;
        let length: u8 = if prefix.is_ipv4() { 32 } else { 128 };
        let most = length - LEAST_BITS;
        if !(8..=most).contains(&bits) {
            return Err(format!("a prefix has 8 to {most} bits"));
        }
        let free = match prefix {
            IpAddr::V4(prefix) => u128::from(u32::from(prefix)) << 96 << bits,
            IpAddr::V6(prefix) => u128::from(prefix) << bits,
        };
        match free {
            0 => Ok(Self { prefix, bits }),
            _ => Err("the prefix has bits beyond its length".to_owned()),
        }
    }
}

impl fmt::Display for SourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.prefix, self.bits)
    }
}

/// The addresses that identities have.
#[derive(Debug)]
pub(crate) struct SourceAddresses {
    prefix: SourcePrefix,
    /// The identity that has an address. Empty in a large prefix, where no two identities meet.
    owners: HashMap<IpAddr, Arc<str>>,
}

impl SourceAddresses {
    /// No identity has an address yet.
    pub(crate) fn new(prefix: SourcePrefix) -> Self {
        Self { prefix, owners: HashMap::new() }
    }

    /// The address of an identity; `None` if the prefix has no room for it.
    pub(crate) fn of(&mut self, identity: &Arc<str>) -> Option<IpAddr> {
        let prefix = self.prefix;
        let mut sequence = (0..TRIES).filter_map(|attempt| prefix.address(identity, attempt));
        if prefix.free_bits() >= SPARSE_BITS {
            return sequence.next();
        }
        let owners = &mut self.owners;
        let own = |address: &IpAddr| owners.get(address).is_none_or(|owner| owner == identity);
        let address = sequence.find(own)?;
        owners.entry(address).or_insert_with(|| Arc::clone(identity));
        Some(address)
    }

    /// The prefix.
    pub(crate) const fn prefix(&self) -> SourcePrefix {
        self.prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(text: &str) -> SourceAddresses {
        SourceAddresses::new(text.parse().unwrap())
    }

    #[test]
    fn an_identity_has_one_address_that_a_restart_does_not_change() {
        for prefix in ["127.64.0.0/10", "fd12:3456:789a::/64"] {
            let mut addresses = within(prefix);
            let first = addresses.of(&"psk:a".into()).unwrap();
            let second = addresses.of(&"psk:b".into()).unwrap();
            assert_ne!(first, second);
            assert_eq!(addresses.of(&"psk:a".into()), Some(first));
            assert_eq!(within(prefix).of(&"psk:a".into()), Some(first), "after a restart");
            let bits: u8 = prefix.split_once('/').unwrap().1.parse().unwrap();
            let same = match first {
                IpAddr::V4(at) => u32::from(at) >> (32 - bits) == 0x7f40_0000 >> (32 - bits),
                IpAddr::V6(at) => at.octets()[..8] == [0xfd, 0x12, 0x34, 0x56, 0x78, 0x9a, 0, 0],
            };
            assert!(same, "{first} in {prefix}");
        }
    }

    #[test]
    fn in_a_small_prefix_no_two_identities_meet_and_a_full_one_says_so() {
        let mut addresses = within("10.1.2.0/24");
        let mut given: Vec<IpAddr> = Vec::new();
        let identities: Vec<Arc<str>> = (0..300).map(|n| format!("psk:{n}").into()).collect();
        for identity in &identities {
            given.extend(addresses.of(identity));
        }
        let count = given.len();
        assert!((200..=254).contains(&count), "{count}");
        for (identity, address) in identities.iter().zip(&given).take(100) {
            assert_eq!(addresses.of(identity), Some(*address));
        }
        given.sort();
        given.dedup();
        assert_eq!(given.len(), count);
        let reserved: [IpAddr; 2] = ["10.1.2.0", "10.1.2.255"].map(|text| text.parse().unwrap());
        assert!(!given.iter().any(|address| reserved.contains(address)));
    }

    #[test]
    fn a_prefix_is_a_network() {
        for right in ["127.64.0.0/10", "10.0.0.0/8", "192.0.2.0/24", "fd00::/64", "fd00::/120"] {
            assert_eq!(right.parse::<SourcePrefix>().unwrap().to_string(), right);
        }
        for wrong in
            ["", "127.64.0.0", "127.64.0.1/10", "127.0.0.0/25", "0.0.0.0/0", "fd00::/121", "x/8"]
        {
            assert!(wrong.parse::<SourcePrefix>().is_err(), "{wrong}");
        }
        let prefix: SourcePrefix = "127.64.0.0/10".parse().unwrap();
        assert!(
            prefix.fits(Ipv4Addr::LOCALHOST.into()) && !prefix.fits(Ipv6Addr::LOCALHOST.into())
        );
    }
}
