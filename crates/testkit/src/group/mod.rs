//! Groups without sockets: a [`field`] is a key server with members, a [`site`] a controller with members, their requests
//! and its store.

pub mod field;
pub mod site;
