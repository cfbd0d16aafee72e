//! From which security level data is delivered before it is verified.

/// The level in bits; none if data is delivered only once it is verified. Without the feature
/// `provisional` there is never one, and the compiler leaves out what it is
/// for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    #[cfg(feature = "provisional")]
    bits: Option<u8>,
}

impl Threshold {
    /// Whether there may be one.
    pub(crate) const MAY_EXIST: bool = cfg!(feature = "provisional");

    pub(crate) const NONE: Self = Self {
        #[cfg(feature = "provisional")]
        bits: None,
    };

    #[cfg_attr(not(feature = "provisional"), allow(unused_variables))]
    pub(crate) const fn new(bits: Option<u8>) -> Self {
        Self {
            #[cfg(feature = "provisional")]
            bits,
        }
    }

    #[cfg(feature = "provisional")]
    pub(crate) const fn get(self) -> Option<u8> {
        self.bits
    }

    #[cfg(not(feature = "provisional"))]
    pub(crate) const fn get(self) -> Option<u8> {
        None
    }
}
