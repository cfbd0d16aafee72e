//! Which way the database takes to the rows of large tables: never through all of them.

use super::{schema, sql};
use crate::database::StoreUrl;
use testkit::postgres::{Durability, Postgres};
use tokio_postgres::{Client, Config};

/// Number of associations in the table. With few of them, reading all would cost the database less than
/// finding some by an index.
const ROWS: u32 = 40_000;

/// Associations of one node in all slots, and the chain of certificates of each tenth peer. Half of the
/// chains are old, and half of these belong to no association.
fn fill() -> String {
    format!(
        "UPDATE slot SET owner = 1;
         INSERT INTO mark SELECT n, 3, 7, 3, 100, 3, 64, 0, 0 FROM generate_series(1, {ROWS}) n;
         INSERT INTO state SELECT n, n % 256, CASE WHEN n % 10 = 0 THEN int4send(n) END,
             convert_to(repeat('s', 400), 'UTF8') FROM generate_series(1, {ROWS}) n;
         INSERT INTO cid SELECT int8send(n), n FROM generate_series(1, {ROWS}) n;
         INSERT INTO chain SELECT int4send(n + n % 40 / 20), convert_to(repeat('c', 900), 'UTF8'),
             current_date - CASE WHEN n % 20 = 0 THEN 31 ELSE 1 END
             FROM generate_series(10, {ROWS}, 10) n;
         ANALYZE"
    )
}

/// A list of `count` values of a type, as a literal.
fn list(count: u32, of: &str, value: impl Fn(u32) -> String) -> String {
    let values: Vec<_> = (1..=count).map(value).collect();
    format!("ARRAY[{}]::{of}[]", values.join(","))
}

/// Whether a plan reads a large table without looking for some rows.
fn reads_all(plan: &str) -> bool {
    let lines: Vec<_> = plan.lines().collect();
    lines.iter().zip(lines.iter().skip(1).chain([&""])).any(|(line, next)| {
        ["mark", "state", "cid", "chain"].iter().any(|table| {
            let scans = line.contains(&format!(" on {table} ")) && line.contains("Scan");
            scans && !next.contains("Cond:")
        })
    })
}

async fn plan(client: &Client, statement: &str, values: &[String]) -> String {
    let values = values.join(", ");
    let arguments = if values.is_empty() { String::new() } else { format!("({values})") };
    let prepare = format!("PREPARE asked AS {statement}");
    client.batch_execute(&prepare).await.unwrap();
    let explain = format!("EXPLAIN EXECUTE asked{arguments}");
    let rows = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("DEALLOCATE asked").await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

#[test]
fn no_statement_of_ordinary_operation_reads_all_rows() {
    let database = match Postgres::start(Durability::Process) {
        Ok(database) => database,
        Err(reason) => return skip::test(reason),
    };
    let url: StoreUrl = database.url().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = url.connect(|_: &mut Config| {}).await.unwrap();
        let create = schema::CREATE;
        client.batch_execute(&format!("CREATE SCHEMA lightseal; {}", sql::SETTINGS)).await.unwrap();
        client.batch_execute(create).await.unwrap();
        client.batch_execute(&fill()).await.unwrap();
        let number = |step: u32| move |n: u32| (n * step).to_string();
        let numbers = |count| list(count, "bigint", number(7));
        let same = |count, value: &'static str| list(count, "bigint", move |_| value.into());
        let ports = |count| list(count, "integer", |_| "0".into());
        let slots = |count| list(count, "smallint", number(1));
        let bytes = |count| list(count, "bytea", |n| format!("int8send({n})"));
        // The columns of marks: number, version and writer before, and what is written.
        let marks = |count| {
            let mut columns = vec![numbers(count), same(count, "3"), same(count, "7")];
            columns.extend((0..6).map(|_| same(count, "9")));
            columns.extend([ports(count), "8".into()]);
            columns
        };
        for (name, statement, more) in [
            ("LOAD", sql::LOAD, vec!["1".into(), slots(8), same(8, "9000000000"), "2048".into()]),
            (
                "LOAD one",
                sql::LOAD,
                vec!["1".into(), slots(1), same(1, "9000000000"), "2048".into()],
            ),
            ("UPDATE_MARKS", sql::UPDATE_MARKS, marks(500)),
            (
                "UPDATE_STATES",
                sql::UPDATE_STATES,
                [marks(100), vec![bytes(100), bytes(100), numbers(100)]].concat(),
            ),
            (
                "INSERT",
                sql::INSERT,
                [
                    marks(100),
                    vec![bytes(100), bytes(100), numbers(100), slots(100), bytes(100), "1".into()],
                ]
                .concat(),
            ),
            ("REMOVE", sql::REMOVE, vec![numbers(100), same(100, "3"), same(100, "7")]),
            ("READ_BACK", sql::READ_BACK, vec![numbers(100)]),
            ("CHAINS", sql::CHAINS, vec![bytes(100), bytes(100)]),
            ("REMOVE_CHAINS", sql::REMOVE_CHAINS, vec![]),
            ("SOME_STATES", sql::SOME_STATES, vec!["100".into(), "1000".into()]),
            ("RESEAL", sql::RESEAL, vec![numbers(500), bytes(500), bytes(500)]),
        ] {
            for mode in ["force_custom_plan", "force_generic_plan"] {
                client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.unwrap();
                let plan = plan(&client, statement, &more).await;
                assert!(!reads_all(&plan), "{name}, {mode}:\n{plan}");
            }
        }
        // A look at old chains removes those without an association, and looks at the others once.
        let (mut looks, mut all) = (Vec::new(), 0);
        for _ in 0..3 {
            let looked = client.query_one(sql::REMOVE_CHAINS, &[]).await.unwrap();
            let (old, removed): (i64, i64) = (looked.get(0), looked.get(1));
            looks.push(old);
            all += removed;
        }
        assert_eq!((looks, all), (vec![1000, 1000, 0], 1000));
    });
}
