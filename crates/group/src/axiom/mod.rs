//! Records and keys of profile `axiom-1.2`.
