//! Campaigns on a fleet of three nodes: what is killed, stopped or cut off, while clients talk.
//!
//! - [`field`]: the nodes, their database and their service;
//! - [`routes`]: where datagrams go;
//! - [`crowd`]: the clients;
//! - [`slow_database`]: a way to the database that delays its answers;
//! - [`audit`]: what an observer with the secrets reads.
//!
//! They run for minutes, so each runs only if the variable of its claim is set, such as
//! `LIGHTSEAL_FLEET_KILLS` (`cargo xtask claim fleet-kill-detection`).

pub(crate) mod audit;
pub(crate) mod crowd;
pub(crate) mod field;
pub(crate) mod routes;
pub(crate) mod slow_database;
