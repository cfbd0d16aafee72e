//! Certificates that are made for each test, through public calls.

mod chains;
mod choice;
mod compression;
mod files;
mod names;
mod pins;
mod pkits;
mod restart;
mod revocation;
mod sessions;
mod webpki_vectors;
mod world;
