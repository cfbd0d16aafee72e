//! On systems that are not derived from Unix nothing is removed: whether a process still runs, and whose
//! a directory is, is not told there.

pub(super) fn remove() {}
