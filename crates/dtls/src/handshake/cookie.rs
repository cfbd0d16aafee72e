//! Cookies, which carry the state of a stateless server (RFC 9147, section 5.1).
//!
//! ```text
//! | secret (1) | 0 (7) | suite (16) | group (16) | hash of the first ClientHello (32 bytes) | tag (16 bytes) |
//! ```
//!
//! The tag is HMAC-SHA256 over the client's address and the preceding fields, truncated, under a
//! secret that rotates. The first bit identifies the secret: of two hellos from one address, the
//! one whose cookie has the older secret is the older hello and may be a recording. Until the
//! secret rotates, every answer to a hello is identical, because fragments of hellos with different
//! answers could be mixed.

use crate::crypto::{CipherSuiteId, HashValue, NamedGroup};
use crate::messages::ClientHello;
use crate::tuning::COOKIE_ROTATION;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use hmac::{Hmac, KeyInit, Mac};
use lightseal_core::{Instant, Random, Reader, Writer};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const TAG: usize = 16;

/// The length of a DTLS 1.2 cookie in bytes.
pub const COOKIE_12_LEN: usize = 16;

/// The length in bytes of a DTLS 1.3 cookie without the hash in it.
const BESIDE_HASH: usize = 1 + 2 + 2 + TAG;

/// What a server needs to continue after a HelloRetryRequest for which it kept no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The suite in the HelloRetryRequest.
    pub suite: CipherSuiteId,
    /// The group that it requested, if any.
    pub group: Option<NamedGroup>,
    /// The hash of the first ClientHello, as the suite computes it.
    pub hello_hash: HashValue,
}

/// A secret, and when its use began.
struct Secret {
    bytes: Zeroizing<[u8; 32]>,
    since: Instant,
}

/// Makes and checks cookies.
pub struct CookieJar {
    /// The two newest secrets, indexed by the low bit of the rotation count.
    secrets: [Secret; 2],
    rotations: u8,
    rotate_at: Instant,
}

impl CookieJar {
    /// A jar with fresh secrets.
    pub fn new(rng: &mut Random) -> Self {
        let mut secret = || Secret { bytes: Zeroizing::new(rng.array()), since: Instant::ZERO };
        Self { secrets: [secret(), secret()], rotations: 0, rotate_at: Instant::ZERO }
    }

    /// Replaces the older secret when a rotation is due.
    fn rotate(&mut self, now: Instant, rng: &mut Random) {
        if now < self.rotate_at {
            return;
        }
        // After a long pause both secrets are too old.
        let stale = now.saturating_since(self.rotate_at) > COOKIE_ROTATION;
        for _ in 0..if stale { 2 } else { 1 } {
            self.rotations = self.rotations.wrapping_add(1);
            let bytes = Zeroizing::new(rng.array());
            self.secrets[usize::from(self.rotations & 1)] = Secret { bytes, since: now };
        }
        self.rotate_at = now + COOKIE_ROTATION;
    }

    fn secret(&self, mark: u8) -> &Secret {
        &self.secrets[usize::from(mark >> 7)]
    }

    /// The first byte of a cookie that is made now.
    const fn mark(&self) -> u8 {
        (self.rotations & 1) << 7
    }

    /// When the use of the secret began that a cookie with this first byte has.
    fn made(&self, mark: u8) -> Instant {
        self.secret(mark).since
    }

    /// Begins a MAC over an address, under the secret that a cookie's first byte identifies.
    fn keyed(&self, mark: u8, from: SocketAddr) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.secret(mark).bytes)
            .expect("HMAC takes keys of any length");
        match from.ip() {
            IpAddr::V4(ip) => mac.update(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&from.port().to_be_bytes());
        mac
    }

    fn tag(&self, from: SocketAddr, content: &[u8]) -> [u8; TAG] {
        let mut mac = self.keyed(content.first().copied().unwrap_or(0), from);
        mac.update(b"1.3");
        mac.update(content);
        let full = mac.finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&full[..TAG]);
        tag
    }

    /// Makes a cookie for a client at `from`.
    pub fn bake(
        &mut self,
        now: Instant,
        rng: &mut Random,
        from: SocketAddr,
        retry: &Retry,
    ) -> Vec<u8> {
        self.rotate(now, rng);
        let mark = self.mark();
        let mut cookie = alloc::vec![0; BESIDE_HASH + retry.hello_hash.len()];
        let (content, tag) = cookie.split_at_mut(BESIDE_HASH + retry.hello_hash.len() - TAG);
        let mut w = Writer::new(content);
        let mut write = || {
            w.u8(mark)?;
            w.u16(retry.suite.0)?;
            w.u16(retry.group.map_or(0, |group| group.0))?;
            w.bytes(&retry.hello_hash)
        };
        write().expect("the content has exactly this length");
        tag.copy_from_slice(&self.tag(from, content));
        cookie
    }

    /// Opens a cookie: its content, and when its secret came into use. `None` if the cookie is not
    /// ours, too old, or for another address.
    pub fn open(
        &mut self,
        now: Instant,
        rng: &mut Random,
        from: SocketAddr,
        cookie: &[u8],
    ) -> Option<(Retry, Instant)> {
        self.rotate(now, rng);
        let (content, tag) = cookie.split_at_checked(cookie.len().checked_sub(TAG)?)?;
        if !bool::from(self.tag(from, content).ct_eq(tag)) {
            return None;
        }
        let mut r = Reader::new(content);
        let made = self.made(r.u8().ok()?);
        let suite = CipherSuiteId(r.u16().ok()?);
        let group = match r.u16().ok()? {
            0 => None,
            group => Some(NamedGroup(group)),
        };
        let hello_hash = HashValue::from_bytes(r.rest())?;
        Some((Retry { suite, group, hello_hash }, made))
    }
}

/// Cookies of DTLS 1.2 (RFC 6347, section 4.2.1): a tag over the fields that must not change
/// between the two hellos. The first byte is as in a cookie of 1.3.
impl CookieJar {
    fn tag12(&self, mark: u8, from: SocketAddr, hello: &ClientHello<'_>) -> [u8; COOKIE_12_LEN] {
        let mut mac = self.keyed(mark, from);
        mac.update(b"1.2");
        mac.update(&[mark]);
        mac.update(&hello.legacy_version.to_be_bytes());
        mac.update(hello.random);
        for field in [hello.legacy_session_id, hello.cipher_suites, hello.compression_methods] {
            mac.update(&(field.len() as u16).to_be_bytes());
            mac.update(field);
        }
        let mut tag = [0; COOKIE_12_LEN];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..COOKIE_12_LEN]);
        tag[0] = mark;
        tag
    }

    /// Makes a cookie for a DTLS 1.2 client at `from`.
    pub fn bake12(
        &mut self,
        now: Instant,
        rng: &mut Random,
        from: SocketAddr,
        hello: &ClientHello<'_>,
    ) -> [u8; COOKIE_12_LEN] {
        self.rotate(now, rng);
        self.tag12(self.mark(), from, hello)
    }

    /// When the secret of the hello's cookie came into use; `None` if the cookie is not ours, too
    /// old, or for another address.
    pub fn open12(
        &mut self,
        now: Instant,
        rng: &mut Random,
        from: SocketAddr,
        hello: &ClientHello<'_>,
    ) -> Option<Instant> {
        self.rotate(now, rng);
        let mark = *hello.legacy_cookie.first()?;
        let genuine = self.tag12(mark, from, hello).ct_eq(hello.legacy_cookie);
        bool::from(genuine).then(|| self.made(mark))
    }
}

impl core::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CookieJar(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(bytes: [u8; 32]) -> HashValue {
        HashValue::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn a_cookie_serves_its_address_until_both_secrets_are_gone() {
        let rng = &mut Random::insecure(1);
        let mut jar = CookieJar::new(rng);
        let (a, b): (SocketAddr, SocketAddr) =
            ("192.0.2.1:5684".parse().unwrap(), "192.0.2.1:5685".parse().unwrap());
        let retry = Retry {
            suite: CipherSuiteId::AES_128_CCM_SHA256,
            group: Some(NamedGroup::P256),
            hello_hash: hash([7; 32]),
        };
        let start = Instant::from_micros(1_000_000);
        let cookie = jar.bake(start, rng, a, &retry);
        assert_eq!(jar.open(start, rng, a, &cookie), Some((retry.clone(), start)));
        assert_eq!(jar.open(start, rng, b, &cookie), None, "another port");
        for at in 0..cookie.len() {
            let mut forged = cookie.clone();
            forged[at] ^= 1;
            assert_eq!(jar.open(start, rng, a, &forged), None);
            assert_eq!(jar.open(start, rng, a, &cookie[..at]), None);
        }
        let next = start + COOKIE_ROTATION;
        assert_eq!(jar.open(next, rng, a, &cookie), Some((retry, start)), "one rotation later");
        assert_eq!(jar.open(next + COOKIE_ROTATION, rng, a, &cookie), None);
    }

    #[test]
    fn a_cookie_of_the_newer_secret_says_so_and_each_secret_makes_one_alone() {
        let rng = &mut Random::insecure(1);
        let mut jar = CookieJar::new(rng);
        let from = "[::1]:1".parse().unwrap();
        let retry = Retry { suite: CipherSuiteId(1), group: None, hello_hash: hash([0; 32]) };
        let start = Instant::from_micros(1);
        let cookie = jar.bake(start, rng, from, &retry);
        let later = start + COOKIE_ROTATION * 9 / 10;
        assert_eq!(jar.bake(later, rng, from, &retry), cookie, "fragments of both may be mixed");
        let next = start + COOKIE_ROTATION * 3 / 2;
        let newer = jar.bake(next, rng, from, &retry);
        assert_eq!(jar.open(next, rng, from, &cookie).map(|(_, made)| made), Some(start));
        assert_eq!(jar.open(next, rng, from, &newer).map(|(_, made)| made), Some(next));
    }

    #[test]
    fn a_long_pause_ends_both_secrets() {
        let rng = &mut Random::insecure(1);
        let mut jar = CookieJar::new(rng);
        let from = "[::1]:1".parse().unwrap();
        let retry = Retry { suite: CipherSuiteId(1), group: None, hello_hash: hash([0; 32]) };
        let start = Instant::from_micros(1);
        let cookie = jar.bake(start, rng, from, &retry);
        let later = start + COOKIE_ROTATION * 2 + core::time::Duration::from_micros(1);
        assert_eq!(jar.open(later, rng, from, &cookie), None);
    }
}
