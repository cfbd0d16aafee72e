//! LightMAC of a message that comes in pieces: [`Stream`], and [`LightMacStream`] for RustCrypto's
//! streaming traits.

use crate::hash::{Hasher, LANES};
use crate::kernel::Shares;
use crate::limits::{MessageTooLong, check_counter};
use crate::pipeline::Pipeline;
use cipher::typenum::{Sum, Unsigned};
use cipher::{Block, BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, KeySizeUser};
use core::fmt;
use core::ops::Add;
use digest::array::ArraySize;
use digest::{FixedOutput, FixedOutputReset, MacMarker, Output, OutputSizeUser, Reset, Update};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Why a kernel may be expected: [`Layer::Kernel`] is made only for ciphers that have one.
const KERNEL: &str = "the cipher has a kernel";

/// The computation of one message's tag, with parameters that are known at run time.
///
/// ```
/// use lightmac::{Hasher, LightMac, Present128, Stream, Tag};
/// # use cipher::KeyInit;
///
/// let (k1, k2) = ([1; 16].into(), [2; 16].into());
/// let hasher = Hasher::<Present128>::new(&k1, 24)?;
/// let mut stream = Stream::new(hasher, Present128::new(&k2));
/// stream.update(b"in ")?;
/// stream.update(b"pieces")?;
/// let tag = Tag::leading(&stream.finalize(), 32);
/// assert_eq!(tag, LightMac::<Present128>::new(&k1, &k2, 24, 32)?.tag(&[b"in pieces"])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stream<C: BlockCipherEncrypt> {
    hasher: Hasher<C>,
    last: C,
    layer: Layer<C::BlockSize>,
    state: [Block<C>; 1],
    /// Number of message bits so far, a multiple of 8.
    bits: u128,
}

/// The part of the stream that makes counter blocks.
#[derive(Clone)]
enum Layer<N: ArraySize> {
    /// The cipher's kernel makes them.
    Kernel(Shares<N>),
    Pipeline(Pipeline<N, LANES>),
}

impl<C: BlockCipherEncrypt + 'static> Stream<C> {
    /// An empty message, with a hasher with K1 and a cipher with K2.
    pub fn new(hasher: Hasher<C>, last: C) -> Self {
        let layer = Self::layer(&hasher);
        Self { hasher, last, layer, state: [Block::<C>::default()], bits: 0 }
    }

    /// Adds `data` to the message.
    ///
    /// # Errors
    ///
    /// Fails if the message would become longer than 2^s·(n − s) bits. Nothing of `data` is added
    /// then, and the stream remains usable.
    pub fn update(&mut self, data: &[u8]) -> Result<(), MessageTooLong> {
        let bits = self.bits + data.len() as u128 * 8;
        self.hasher.check_bits(bits)?;
        self.bits = bits;
        match &mut self.layer {
            Layer::Kernel(shares) => {
                let (native, _) = self.hasher.native().expect(KERNEL);
                shares.absorb(native, &mut self.state[0], data);
            }
            Layer::Pipeline(pipeline) => {
                pipeline.absorb(self.hasher.cipher(), &mut self.state, data);
            }
        }
        Ok(())
    }

    /// The block E_K2(V) of the message. A tag is its leading t bits
    /// ([`Tag::leading`](crate::Tag::leading)).
    pub fn finalize(mut self) -> Block<C> {
        self.take_tag(0, 0)
    }

    /// The block E_K2(V) of the message after the leading `count` bits of `last`, 0 to 7, have been
    /// added as its end. Messages are bit strings.
    ///
    /// # Errors
    ///
    /// Fails if the message would become longer than 2^s·(n − s) bits.
    pub fn finalize_bits(mut self, last: u8, count: u32) -> Result<Block<C>, MessageTooLong> {
        let count = count.min(7);
        self.hasher.check_bits(self.bits + u128::from(count))?;
        Ok(self.take_tag(last, count))
    }

    /// Makes the message empty again.
    pub fn reset(&mut self) {
        self.layer = Self::layer(&self.hasher);
        self.state = [Block::<C>::default()];
        self.bits = 0;
    }

    /// The layer at the beginning of a message.
    fn layer(hasher: &Hasher<C>) -> Layer<C::BlockSize> {
        match hasher.native() {
            Some((_, counter_bytes)) => Layer::Kernel(Shares::new(counter_bytes)),
            None => Layer::Pipeline(Pipeline::new(hasher.counter_bits())),
        }
    }

    /// The last block after `count` bits of `last`, at most 7, have been added. The message is
    /// empty again afterwards.
    fn take_tag(&mut self, last: u8, count: u32) -> Block<C> {
        match &mut self.layer {
            Layer::Kernel(shares) => shares.finish(&mut self.state[0], last, count),
            Layer::Pipeline(pipeline) => {
                pipeline.absorb_bits(self.hasher.cipher(), &mut self.state, last, count);
                pipeline.finish(&mut self.state);
                pipeline.flush(self.hasher.cipher(), &mut self.state);
            }
        }
        self.last.encrypt_blocks(&mut self.state);
        self.state[0].clone()
    }
}

impl<C: BlockCipherEncrypt> fmt::Debug for Stream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("hasher", &self.hasher).finish_non_exhaustive()
    }
}

impl<C: BlockCipherEncrypt> Drop for Stream<C> {
    fn drop(&mut self) {
        match &mut self.layer {
            Layer::Kernel(shares) => shares.zeroize(),
            Layer::Pipeline(pipeline) => pipeline.zeroize(),
        }
        self.state[0].as_mut_slice().zeroize();
    }
}

impl<C: BlockCipherEncrypt + ZeroizeOnDrop> ZeroizeOnDrop for Stream<C> {}

/// LightMAC as a [`digest::Mac`], with a counter of `S` bits and tags of a whole block.
///
/// The key is K1 ‖ K2. For shorter tags, use [`digest::Mac::verify_truncated_left`] or the leading
/// bytes of the output. A counter length that the cipher does not allow fails to compile.
///
/// ```
/// use digest::{KeyInit, Mac};
/// use lightmac::{LightMacStream, Present128};
///
/// let mut mac = LightMacStream::<Present128, 8>::new(&[7; 32].into());
/// mac.update(b"in ");
/// mac.update(b"pieces");
/// let tag = mac.finalize().into_bytes();
/// let again = LightMacStream::<Present128, 8>::new(&[7; 32].into()).chain_update(b"in pieces");
/// assert!(again.verify(&tag).is_ok());
/// ```
#[derive(Clone)]
pub struct LightMacStream<C: BlockCipherEncrypt, const S: u32 = 16>(Stream<C>);

impl<C: BlockCipherEncrypt + 'static, const S: u32> LightMacStream<C, S> {
    const VALID: () = assert!(
        check_counter(<C::BlockSize as Unsigned>::USIZE, S).is_ok(),
        "LightMAC: S must be 1 to half the cipher's block bits, blocks 4 to 16 bytes"
    );

    /// A MAC from ciphers that have been set up with K1 and K2.
    pub fn from_ciphers(first: C, last: C) -> Self {
        const { Self::VALID };
        Self(Stream::new(Hasher::from_cipher(first, S).expect("checked at compile time"), last))
    }

    /// Adds `data` to the message.
    ///
    /// # Errors
    ///
    /// Fails if the message would become longer than 2^S·(n − S) bits. Nothing of `data` is added
    /// then, and the MAC remains usable.
    pub fn try_update(&mut self, data: &[u8]) -> Result<(), MessageTooLong> {
        self.0.update(data)
    }

    /// Adds the leading `count` bits of `last`, 0 to 7, as the end of the message and returns the
    /// tag. Messages are bit strings.
    ///
    /// # Errors
    ///
    /// Fails if the message would become longer than 2^S·(n − S) bits.
    pub fn try_finalize_bits(self, last: u8, count: u32) -> Result<Block<C>, MessageTooLong> {
        self.0.finalize_bits(last, count)
    }
}

impl<C: BlockCipherEncrypt + 'static, const S: u32> Update for LightMacStream<C, S> {
    /// # Panics
    ///
    /// Panics if the message becomes longer than 2^S·(n − S) bits. This trait has no error, and a
    /// wrong tag would be worse. Use [`try_update`](LightMacStream::try_update) if the length is
    /// not known.
    fn update(&mut self, data: &[u8]) {
        if let Err(error) = self.try_update(data) {
            panic!("{error}");
        }
    }
}

impl<C: BlockCipherEncrypt, const S: u32> OutputSizeUser for LightMacStream<C, S> {
    type OutputSize = C::BlockSize;
}

impl<C: BlockCipherEncrypt + 'static, const S: u32> FixedOutput for LightMacStream<C, S> {
    fn finalize_into(self, out: &mut Output<Self>) {
        *out = self.0.finalize();
    }
}

impl<C: BlockCipherEncrypt + 'static, const S: u32> FixedOutputReset for LightMacStream<C, S> {
    fn finalize_into_reset(&mut self, out: &mut Output<Self>) {
        *out = self.0.take_tag(0, 0);
        self.0.reset();
    }
}

impl<C: BlockCipherEncrypt + 'static, const S: u32> Reset for LightMacStream<C, S> {
    fn reset(&mut self) {
        self.0.reset();
    }
}

impl<C: BlockCipherEncrypt, const S: u32> MacMarker for LightMacStream<C, S> {}

impl<C, const S: u32> KeySizeUser for LightMacStream<C, S>
where
    C: BlockCipherEncrypt + KeySizeUser,
    C::KeySize: Add<C::KeySize>,
    Sum<C::KeySize, C::KeySize>: ArraySize,
{
    type KeySize = Sum<C::KeySize, C::KeySize>;
}

impl<C, const S: u32> KeyInit for LightMacStream<C, S>
where
    C: BlockCipherEncrypt + KeyInit + 'static,
    C::KeySize: Add<C::KeySize>,
    Sum<C::KeySize, C::KeySize>: ArraySize,
{
    fn new(key: &Key<Self>) -> Self {
        let (k1, k2) = key.split_at(C::key_size());
        let half = "a key has two halves of the cipher's key size";
        Self::from_ciphers(C::new_from_slice(k1).expect(half), C::new_from_slice(k2).expect(half))
    }
}

impl<C: BlockCipherEncrypt + BlockSizeUser, const S: u32> fmt::Debug for LightMacStream<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LightMacStream").field("counter_bits", &S).finish_non_exhaustive()
    }
}

impl<C: BlockCipherEncrypt + ZeroizeOnDrop, const S: u32> ZeroizeOnDrop for LightMacStream<C, S> {}
