//! Fuzz targets, which libFuzzer and the seeded driver feed with bytes. Attack campaigns are the
//! package `attacks`.
#![forbid(unsafe_code)]

pub mod targets;
