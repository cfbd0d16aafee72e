//! Records and keys of profile `compact`.
