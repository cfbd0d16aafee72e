//! Words about an error, for people.

/// What an error is about, in words: a string, or nothing in a build without the feature `texts`, whose
/// errors are codes alone.
#[cfg(feature = "texts")]
pub type Text = &'static str;
#[cfg(not(feature = "texts"))]
pub use without::Text;

/// The words as an error holds them.
#[cfg(feature = "texts")]
#[inline]
pub const fn text(words: &'static str) -> Text {
    words
}

/// Nothing: the build has no texts.
#[cfg(not(feature = "texts"))]
#[inline]
pub const fn text(_words: &'static str) -> Text {
    Text
}

#[cfg(not(feature = "texts"))]
mod without {
    use core::fmt;

    /// Words that were left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Text;

    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("value")
        }
    }
}
