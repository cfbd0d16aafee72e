//! A fleet whose database has many associations.
//!
//! `LIGHTSEAL_ROWS` is how many, and `LIGHTSEAL_ROWS_REPORT` the file that gets the figures (the claims
//! `fleet-rows-…`).

use crate::dtls_clients::{Client, Service, identity};
use crate::program::{KEY, Running, eventually, lightseal};
use crate::proxy_state::{Place, connected};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use lightseal_dtls::ProtocolVersion;
use serde_json::json;
use sha2::Sha256;
use std::time::Instant;
use testkit::postgres::{Durability, Postgres};
use tokio_postgres::NoTls;

const SALT: usize = 16;
const TAG: usize = 16;

/// Seals what a proxy has stored, under other numbers.
struct Sealer {
    key: [u8; 32],
    state: Vec<u8>,
}

impl Sealer {
    /// Opens a sealed state with the key in a file that `lightseal proxy state-key` has made.
    fn new(key_file: &str, id: i64, sealed: &[u8]) -> Self {
        let line = std::fs::read_to_string(key_file).unwrap();
        let digits = line.trim().strip_prefix("state-key:").unwrap();
        let byte = |at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        let key = std::array::from_fn(byte);
        let (salt, rest) = sealed.split_at(SALT);
        let (text, tag) = rest.split_at(rest.len() - TAG);
        let (mut state, tag) = (text.to_vec(), <[u8; TAG]>::try_from(tag).unwrap());
        let opened = Self::cipher(&key, salt).decrypt_inout_detached(
            &Default::default(),
            &id.to_be_bytes(),
            state.as_mut_slice().into(),
            (&tag).into(),
        );
        opened.unwrap();
        Self { key, state }
    }

    fn cipher(key: &[u8; 32], salt: &[u8]) -> Aes256Gcm {
        let mut of_row = [0; 32];
        let hkdf = Hkdf::<Sha256>::new(Some(salt), key);
        hkdf.expand(b"lightseal proxy state: row", &mut of_row).unwrap();
        Aes256Gcm::new((&of_row).into())
    }

    fn seal(&self, id: i64) -> Vec<u8> {
        let salt = u128::from(id.unsigned_abs()).to_be_bytes();
        let mut state = self.state.clone();
        let tag = Self::cipher(&self.key, &salt).encrypt_inout_detached(
            &Default::default(),
            &id.to_be_bytes(),
            state.as_mut_slice().into(),
        );
        [&salt[..], &state, &tag.unwrap()].concat()
    }
}

/// Makes copies of the only association in the database, under numbers of their own.
async fn multiply(url: &str, key_file: &str, rows: i64) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET search_path = lightseal").await.unwrap();
    let only = client.query_one("SELECT id, sealed FROM state", &[]).await.unwrap();
    let (template, sealed): (i64, &[u8]) = (only.get(0), only.get(1));
    let sealer = Sealer::new(key_file, template, sealed);
    let mut next = 1;
    while next <= rows {
        let ids: Vec<i64> = (next..=rows.min(next + 9999)).collect();
        let sealed: Vec<_> = ids.iter().map(|id| sealer.seal(*id)).collect();
        next += ids.len() as i64;
        let states = "INSERT INTO state SELECT id, id % 256, NULL, sealed
                      FROM unnest($1::bigint[], $2::bytea[]) AS new(id, sealed)";
        client.execute(states, &[&ids, &sealed]).await.unwrap();
    }
    client
        .batch_execute(&format!(
            "INSERT INTO mark SELECT n, version, writer, send_epoch, send_below, deliver_epoch,
                deliver_below, skipped, service_port
             FROM mark, generate_series(1, {rows}) n WHERE id = {template};
             INSERT INTO cid SELECT int8send(n), n FROM generate_series(1, {rows}) n;
             DELETE FROM cid WHERE id = {template};
             DELETE FROM state WHERE id = {template};
             DELETE FROM mark WHERE id = {template};
             ANALYZE"
        ))
        .await
        .unwrap();
}

/// The rows are those of a client whose key nobody has any more: the proxy reads and opens all of
/// them, and keeps none in memory.
#[test]
fn a_proxy_with_many_rows_in_its_database_starts_and_others_come() {
    let rows = std::env::var("LIGHTSEAL_ROWS").map_or(300, |rows| rows.parse().unwrap());
    let database = match Postgres::start(Durability::Process) {
        Ok(database) => database,
        Err(reason) => return skip::test(reason),
    };
    let (mut place, service) = (Place::new(1), Service::start());
    place.store = Some(database.url());
    let version = ProtocolVersion::Dtls13;
    let mut proxy = place.start(&service.address(), &[]);
    connected(&place, version, 1)[0].echo_at_once();
    proxy.signal("KILL");
    proxy.wait();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(multiply(&database.url(), &place.path("state.key"), rows));
    let count = || -> i64 {
        database.query("SELECT count(*) FROM lightseal.mark").unwrap().parse().unwrap()
    };
    assert_eq!(count(), rows);
    let lines: String = (1..6).map(|n| format!("{}:{KEY}\n", identity(n))).collect();
    place.keys = place.dir.file("others.psk", &lines);
    // A new client, once the proxy has read what is there.
    let answered = |place: &Place, number: u64| {
        let mut client = Client::new(number, place.listen.parse().unwrap(), version);
        client.connect();
        client.echo_at_once();
        client
    };
    let began = Instant::now();
    let proxy = place.start(&service.address(), &[]);
    answered(&place, 1);
    let alone = began.elapsed().as_secs_f64();
    let state = place.statistics(&proxy)["state"].clone();
    let refused = json!({ "the PSK of the association is not known any more": rows });
    assert_eq!(state["refused"], refused, "{state:#}");
    // Another node comes, and takes its part of the slots.
    let mut other = Place::new(0);
    other.keys.clone_from(&place.keys);
    other.store = Some(database.url());
    std::fs::copy(place.path("state.key"), other.path("state.key")).unwrap();
    let began = Instant::now();
    let second = other.start(&service.address(), &["--node", "1"]);
    let mut client = answered(&other, 2);
    let beside = began.elapsed().as_secs_f64();
    client.echo();
    // The first client's slot may be the second node's by now, and no router knows that here.
    let stored = |place: &Place, proxy: &Running| {
        place.statistics(proxy)["state"]["stored"].as_u64().unwrap()
    };
    eventually(|| (stored(&place, &proxy) + stored(&other, &second) == 2).then_some(()));
    drop((proxy, second));
    // All rows get another key.
    let (key, former) = (place.path("state.key"), place.path("former.key"));
    std::fs::rename(&key, &former).unwrap();
    assert!(lightseal(&["proxy", "state-key", &key]).status().unwrap().success());
    let store = database.url();
    let flags = ["proxy", "fleet", "reseal", "--store", &store, "--state-key", &key];
    let began = Instant::now();
    let resealed = lightseal(&[&flags[..], &["--former-state-key", &former]].concat()).output();
    let reseal = began.elapsed().as_secs_f64();
    let said = String::from_utf8(resealed.unwrap().stderr).unwrap();
    let all = rows + 2;
    assert!(said.contains(&format!("{all} associations of {all} associations")), "{said}");
    assert_eq!(count(), all);
    let figures = json!({ "rows": rows, "alone": alone, "beside": beside, "reseal": reseal });
    if let Some(path) = std::env::var_os("LIGHTSEAL_ROWS_REPORT") {
        std::fs::write(path, figures.to_string()).unwrap();
    }
}
