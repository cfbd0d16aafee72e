//! New group keys for all members but the evicted: a binary logical key hierarchy.
