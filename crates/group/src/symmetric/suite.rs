//! Cipher suites whose keys lie in the member.

use crate::epoch::keys::{Suite, SuitePair};
use crate::parts::{Axiom12, Compact};
use crate::policy::{Policy, Profile};
use crate::{axiom, compact};
use cipher::consts::U16;
use cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit};
use core::fmt;
use core::marker::PhantomData;
use lightseal_dtls::crypto::suites::ccm;
use lightseal_dtls::crypto::suites::mask::{BlockMask, Masked};
use lightseal_dtls::crypto::{CipherSuiteId, KeyDerivation, Limits};

/// Suites of both profiles that need no provider.
pub trait InlineSuite: SuitePair {
    /// The suite of `axiom-1.2` with this code point, if it is this one.
    fn axiom(id: CipherSuiteId) -> Option<Self::Axiom>;

    /// The suite of `compact` with this code point, if it is this one.
    fn compact(id: CipherSuiteId) -> Option<Self::Compact>;
}

impl<S: InlineSuite> Suite<S> {
    /// The suite that a policy names, if it is this one.
    pub(super) fn inline(policy: &Policy) -> Option<Self> {
        Some(match policy.profile {
            Profile::Axiom12 => Self::Axiom(S::axiom(policy.suite)?, Axiom12::INCLUDED?),
            Profile::Compact => Self::Compact(S::compact(policy.suite)?, Compact::INCLUDED?),
        })
    }
}

/// AES-128-CCM with the block cipher `C`, which must be AES-128, and tags of `TAG` bytes: 8 or 16.
pub struct Ccm<C, const TAG: usize>(PhantomData<C>);

impl<C, const TAG: usize> Clone for Ccm<C, TAG> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, const TAG: usize> Copy for Ccm<C, TAG> {}

impl<C, const TAG: usize> fmt::Debug for Ccm<C, TAG> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ccm")
    }
}

/// What the constructions need of a block cipher.
pub trait Cipher:
    BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static
{
}

impl<C> Cipher for C where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static
{
}

impl<C: Cipher, const TAG: usize> SuitePair for Ccm<C, TAG> {
    type Axiom = Self;
    type Compact = Self;
}

impl<C: Cipher, const TAG: usize> InlineSuite for Ccm<C, TAG> {
    fn axiom(id: CipherSuiteId) -> Option<Self> {
        let own = match TAG {
            8 => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            _ => CipherSuiteId::PSK_WITH_AES_128_CCM,
        };
        (id == own).then_some(Self(PhantomData))
    }

    fn compact(id: CipherSuiteId) -> Option<Self> {
        let own = match TAG {
            8 => CipherSuiteId::AES_128_CCM_8_SHA256,
            _ => CipherSuiteId::AES_128_CCM_SHA256,
        };
        (id == own).then_some(Self(PhantomData))
    }
}

/// RFC 6655: keys of 16 bytes, and nonces of which 4 bytes come from the key block.
impl<C: Cipher, const TAG: usize> axiom::RecordSuite for Ccm<C, TAG> {
    type Aead = ccm::Ccm<C, TAG>;

    fn limits(&self) -> &'static Limits {
        if TAG == 8 { &Limits::CCM_8_12 } else { &Limits::CCM }
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn explicit_nonce_len(&self) -> usize {
        8
    }

    fn mac_key_len(&self) -> usize {
        0
    }

    fn enc_key_len(&self) -> usize {
        16
    }

    fn fixed_iv_len(&self) -> usize {
        4
    }

    fn protection(&self, _: &[u8], enc_key: &[u8], iv: &[u8]) -> Self::Aead {
        ccm::Ccm::from_key_block(enc_key, iv)
    }
}

impl<C: Cipher, const TAG: usize> compact::RecordSuite for Ccm<C, TAG> {
    type Protection = Masked<ccm::Ccm<C, TAG>, BlockMask<C>>;

    fn tag_len(&self) -> usize {
        TAG
    }

    fn limits(&self) -> &'static Limits {
        compact::limits(TAG, &Limits::CCM)
    }

    fn protection(&self, keys: &KeyDerivation) -> Self::Protection {
        ccm::Ccm::masked(keys)
    }
}
