//! Hosts for the engines of crate [`lightseal_group`]: sockets, stores and clocks.
//!
//! - [`service`]: a group controller, which serves devices and an administrator;
//! - [`member`]: a device that is a member of a group, and its applications;
//! - [`store`]: the durable stores of controllers and members;
//! - [`token`]: the token with which a device is enrolled.
#![forbid(unsafe_code)]

pub mod member;
mod provider;
pub mod service;
pub mod store;
pub mod token;
