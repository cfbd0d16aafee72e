//! All integration tests of `lightseal`, in one program that is linked once.

mod adapt;
mod addresses;
mod cli;
#[cfg(windows)]
mod console;
mod demo;
mod diagnose;
#[cfg(unix)]
mod diagnose_certificates;
mod documents;
#[cfg(unix)]
mod dtls_clients;
#[cfg(target_os = "linux")]
mod fleet;
#[cfg(target_os = "linux")]
mod fleet_campaigns;
mod fleet_examples;
mod fleet_nft;
#[cfg(target_os = "linux")]
mod fleet_outage;
mod gateway;
mod group;
#[cfg(unix)]
mod group_credentials;
mod group_demo;
mod group_kills;
mod group_places;
#[cfg(unix)]
mod keygen;
#[cfg(unix)]
mod kills;
mod lab;
mod mac;
#[cfg(target_os = "linux")]
mod macsec;
mod program;
mod proxy;
#[cfg(target_os = "linux")]
mod proxy_addresses;
#[cfg(unix)]
mod proxy_credentials;
#[cfg(target_os = "linux")]
mod proxy_database;
mod proxy_first_use;
#[cfg(target_os = "linux")]
mod proxy_fleet;
#[cfg(target_os = "linux")]
mod proxy_keys;
#[cfg(target_os = "linux")]
mod proxy_keys_load;
#[cfg(target_os = "linux")]
mod proxy_keys_public;
#[cfg(target_os = "linux")]
mod proxy_million;
mod proxy_overload;
#[cfg(unix)]
mod proxy_sessions;
#[cfg(unix)]
mod proxy_state;
#[cfg(unix)]
mod proxy_state_shared;
mod proxy_state_systems;
mod proxy_status;
#[cfg(unix)]
mod proxy_workers;
mod services;
mod units;
