//! Certificates that are made for each test, through public calls.

mod chains;
mod names;
mod pins;
mod revocation;
mod world;
