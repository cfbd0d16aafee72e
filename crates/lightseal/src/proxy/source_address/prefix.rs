//! Prefixes from which each identity has an address, and the sequence of addresses of an identity.

use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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
    /// Whether the prefix is so large that no two identities meet.
    pub(super) const fn is_sparse(self) -> bool {
        self.free_bits() >= SPARSE_BITS
    }

    /// Whether two identities can meet in the prefix.
    pub(crate) const fn is_crowded(self) -> bool {
        !self.is_sparse()
    }

    /// Whether an address is in the prefix.
    pub(super) fn contains(self, address: IpAddr) -> bool {
        match (self.prefix, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                (u32::from(prefix) ^ u32::from(address)).leading_zeros() >= self.bits.into()
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                (u128::from(prefix) ^ u128::from(address)).leading_zeros() >= self.bits.into()
            }
            _ => false,
        }
    }

    /// The addresses that an identity may have, the first one first.
    pub(super) fn sequence(self, identity: &str) -> impl Iterator<Item = IpAddr> {
        (0..TRIES).filter_map(move |attempt| self.address(identity, attempt))
    }

    /// Whether it is a prefix of IPv4.
    pub(super) const fn is_v4(self) -> bool {
        self.prefix.is_ipv4()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

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
        let is_in = |address: &str| prefix.contains(address.parse().unwrap());
        assert!(is_in("127.64.0.1") && is_in("127.127.255.254"));
        assert!(!is_in("127.128.0.0") && !is_in("127.63.255.255") && !is_in("::1"));
        assert!(
            prefix.fits(Ipv4Addr::LOCALHOST.into()) && !prefix.fits(Ipv6Addr::LOCALHOST.into())
        );
    }
}
