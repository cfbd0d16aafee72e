//! The parts that a build contains, each named by a feature of this crate.
//!
//! [`mod@lightseal_core::parts`] says how code without its feature is left out. Only constructors by
//! which a program begins to use a part ask for the feature.

lightseal_core::parts! {
    /// Records of profile `axiom-1.2`.
    Axiom12 if feature = "axiom";
    /// The suite of `axiom-1.2` that does not encrypt.
    NullSuite if feature = "null-suite";
    /// Records of profile `compact`.
    Compact if feature = "compact";
    /// Members that send requests.
    Sending if feature = "sender";
    /// Members that answer requests.
    Listening if feature = "listener";
    /// Ed25519: source authentication, and announcements of the controller.
    Signatures if feature = "signatures";
    /// X25519: pairwise responses and direct requests.
    Pairwise if feature = "pairwise";
    /// Public keys of other members, and challenges, which these keys make possible.
    PeerKeys if any(feature = "signatures", feature = "pairwise");
    /// Rekey messages to the group. Without them a member asks the controller for new keys.
    Rekeying if feature = "rekeying";
}
