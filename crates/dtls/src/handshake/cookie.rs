//! Cookies, which carry the state of a stateless server (RFC 9147, section 5.1).
//!
//! ```text
//! | secret (2) | 0 (6) | suite (16) | group (16) | hash of the first ClientHello (32 bytes) | tag (16 bytes) |
//! ```
//!
//! The tag is HMAC-SHA256 over the client's address and the preceding fields, truncated, under a
//! secret that rotates. The first two bits identify the secret: of two hellos from one address, the
//! one whose cookie has the older secret is the older hello and may be a recording. Until the
//! secret rotates, every answer to a hello is identical, because fragments of hellos with different
//! answers could be mixed.
//!
//! A jar draws its secrets itself, and has two of them. Or several jars are given the same ones, so that
//! each opens the cookies of all. As clocks differ, these also have the secret that comes next.

use crate::crypto::{CipherSuiteId, Hash, HashValue, NamedGroup, Sha256};
use crate::messages::ClientHello;
use crate::tuning::COOKIE_ROTATION;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use lightseal_core::{Instant, Random, Reader, Writer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const TAG: usize = 16;

/// The length of a DTLS 1.2 cookie in bytes.
pub const COOKIE_12_LEN: usize = TAG;

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

/// For how many secrets a jar has places: as many as two bits tell apart.
const SECRETS: usize = 4;

/// The place of the secret of a generation.
const fn slot(generation: u64) -> usize {
    (generation % SECRETS as u64) as usize
}

const CURRENT: &str = "the secret of the current generation is always there";

/// A secret, and since when cookies may have it.
struct Secret {
    bytes: Zeroizing<[u8; 32]>,
    since: Instant,
}

impl Secret {
    fn boxed(bytes: Zeroizing<[u8; 32]>, since: Instant) -> Option<Box<Self>> {
        Some(Box::new(Self { bytes, since }))
    }
}

/// The bytes of an address: those of IPv6, into which addresses of IPv4 are mapped, and of the port.
fn address(from: SocketAddr) -> [u8; 18] {
    let ip = match from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    let (of_ip, of_port) = bytes.split_at_mut(16);
    of_ip.copy_from_slice(&ip.octets());
    of_port.copy_from_slice(&from.port().to_be_bytes());
    bytes
}

/// Makes and checks cookies.
pub struct CookieJar {
    /// The secrets that are in use, indexed by the low bits of their generations.
    secrets: [Option<Box<Secret>>; SECRETS],
    /// The generation of the secret with which cookies are made.
    generation: u64,
    /// When the jar draws the next secret; `None` if it is given secrets.
    rotate_at: Option<Instant>,
}

impl CookieJar {
    /// A jar with fresh secrets.
    pub fn new(rng: &mut Random) -> Self {
        let mut secret = || Secret::boxed(Zeroizing::new(rng.array()), Instant::ZERO);
        let secrets = [secret(), secret(), None, None];
        Self { secrets, generation: 0, rotate_at: Some(Instant::ZERO) }
    }

    /// Draws a new secret when that is due, in place of the one before the last.
    fn rotate(&mut self, now: Instant, rng: &mut Random) {
        let Some(due) = self.rotate_at.filter(|due| now >= *due) else { return };
        // After a long pause both secrets are too old.
        let stale = now > due + COOKIE_ROTATION;
        for _ in 0..if stale { 2 } else { 1 } {
            self.generation = (self.generation + 1) % 2;
            let bytes = Zeroizing::new(rng.array());
            self.secrets[slot(self.generation)] = Secret::boxed(bytes, now);
        }
        self.rotate_at = Some(now + COOKIE_ROTATION);
    }

    /// Has the secrets of this generation, the one before and the next, as `secret_of` names them, and
    /// draws none itself any more.
    pub fn share(&mut self, now: Instant, generation: u64, secret_of: impl Fn(u64, &mut [u8; 32])) {
        if self.rotate_at.take().is_some() || generation != self.generation {
            let mut known = core::mem::take(&mut self.secrets);
            for of in generation.saturating_sub(1)..=generation.saturating_add(1) {
                let mut bytes = Zeroizing::new([0; 32]);
                secret_of(of, &mut bytes);
                // What is known already has been in use since then.
                let known =
                    known[slot(of)].take().filter(|known| known.bytes.ct_eq(&*bytes).into());
                let since = known.map_or(now, |known| known.since);
                self.secrets[slot(of)] = Secret::boxed(bytes, since);
            }
            self.generation = generation;
        }
    }

    /// The secret that a cookie with this first byte has.
    fn secret(&self, mark: u8) -> Option<&Secret> {
        self.secrets[usize::from(mark.reverse_bits()) % SECRETS].as_deref()
    }

    /// The first byte of a cookie that is made now.
    const fn mark(&self) -> u8 {
        (slot(self.generation) as u8).reverse_bits()
    }

    /// A truncated MAC under the secret that a cookie's first byte identifies, and when that secret came
    /// into use.
    fn mac(&self, mark: u8, message: &[&[u8]]) -> Option<([u8; TAG], Instant)> {
        let secret = self.secret(mark)?;
        let mut full = [0; 32];
        Sha256.hmac(&*secret.bytes, message, &mut full);
        Some((*full.first_chunk()?, secret.since))
    }

    /// The tag of a cookie with this content, and when its secret came into use.
    fn tag(&self, from: SocketAddr, content: &[u8]) -> Option<([u8; TAG], Instant)> {
        self.mac(*content.first()?, &[&address(from), b"1.3", content])
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
        let (of_content, _) = self.tag(from, content).expect(CURRENT);
        tag.copy_from_slice(&of_content);
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
        let (genuine, made) = self.tag(from, content)?;
        if !bool::from(genuine.ct_eq(tag)) {
            return None;
        }
        let mut r = Reader::new(content);
        r.u8().ok()?;
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
    fn tag12(
        &self,
        mark: u8,
        from: SocketAddr,
        hello: &ClientHello<'_>,
    ) -> Option<([u8; COOKIE_12_LEN], Instant)> {
        let version = hello.legacy_version.to_be_bytes();
        let fields = [hello.legacy_session_id, hello.cipher_suites, hello.compression_methods];
        let [id, suites, compression] = fields.map(|field| (field.len() as u16).to_be_bytes());
        let message: [&[u8]; 11] = [
            &address(from),
            b"1.2",
            &[mark],
            &version,
            hello.random,
            &id,
            hello.legacy_session_id,
            &suites,
            hello.cipher_suites,
            &compression,
            hello.compression_methods,
        ];
        let (mut tag, since) = self.mac(mark, &message)?;
        tag[0] = mark;
        Some((tag, since))
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
        self.tag12(self.mark(), from, hello).expect(CURRENT).0
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
        let (genuine, made) = self.tag12(mark, from, hello)?;
        bool::from(genuine.ct_eq(hello.legacy_cookie)).then_some(made)
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
    fn jars_with_the_same_secrets_open_the_cookies_of_each_other() {
        let rng = &mut Random::insecure(1);
        let from = "192.0.2.1:5684".parse().unwrap();
        let secret_of = |generation: u64, secret: &mut [u8; 32]| secret.fill(generation as u8);
        let retry = Retry { suite: CipherSuiteId(1), group: None, hello_hash: hash([7; 32]) };
        let at = |second: u64| Instant::from_micros(second * 1_000_000);
        let [mut one, mut other] = [(); 2].map(|()| CookieJar::new(rng));
        for generation in 1..20 {
            // The clock of one is behind that of the other.
            one.share(at(60 * generation), generation, secret_of);
            other.share(at(60 * generation), generation + 1, secret_of);
            let now = at(60 * generation + 30);
            let cookies = [one.bake(now, rng, from, &retry), other.bake(now, rng, from, &retry)];
            assert_ne!(cookies[0], cookies[1]);
            for jar in [&mut one, &mut other] {
                let made = cookies.each_ref().map(|cookie| {
                    let (opened, made) = jar.open(now, rng, from, cookie).unwrap();
                    assert_eq!(opened, retry);
                    made
                });
                assert!(made[0] <= made[1], "the older secret is the older one everywhere");
            }
            one.share(at(60 * generation + 180), generation + 3, secret_of);
            assert!(cookies.iter().all(|cookie| one.open(now, rng, from, cookie).is_none()));
            one = CookieJar::new(rng);
        }
        let cookie = one.bake(at(5000), rng, from, &retry);
        one.share(at(5001), 83, secret_of);
        assert_eq!(one.open(at(5001), rng, from, &cookie), None, "one of its own");
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
