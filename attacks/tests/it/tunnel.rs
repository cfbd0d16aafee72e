//! Short runs of the campaigns against the tunnel between gateways: observers, forgeries, floods
//! and loss.

use attacks::tunnel;
use serde_json::Value;

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.into()).collect()
}

fn rows(result: &Value) -> &[Value] {
    result["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn loss_and_order_cost_nothing_more_and_stall_the_papers_identifiers() {
    let result = tunnel::loss(1, &named(&["sealed", "compressed", "identifier"]), 3);
    assert_eq!(rows(&result).len(), 3);
    for row in rows(&result) {
        assert_eq!((&row["missing"], &row["reordered_missing"]), (&0.into(), &0.into()), "{row}");
        assert_eq!(row["after_stall_missing"], 0, "{row}");
    }
    let paper = tunnel::loss(1, &named(&["identifier-paper"]), 1);
    assert_eq!(rows(&paper)[0]["after_stall_missing"], 10_000);
    assert_eq!(rows(&paper)[0]["reordered_missing"], 0);
}

#[test]
fn forgeries_are_counted_by_kind_and_repeat_from_their_seed() {
    let sealed = named(&["sealed"]);
    let result = tunnel::forgeries(3, &sealed, 6000);
    let row = &rows(&result)[0];
    assert_eq!((&row["passed"], &row["burnt"]), (&0.into(), &0.into()));
    assert_eq!((&row["forgeries"], &row["raced"]), (&6000.into(), &1000.into()));
    let plain = named(&["plain"]);
    assert_eq!(tunnel::forgeries(3, &plain, 600), tunnel::forgeries(3, &plain, 600));
}

#[test]
fn an_observer_sorts_plain_and_not_sealed() {
    let result = tunnel::observer(1, &named(&["sealed", "plain"]), 3000);
    let [sealed, plain] = rows(&result) else { panic!("{result}") };
    assert_eq!((&sealed["leaks"], &sealed["constant_positions"]), (&0.into(), &0.into()));
    assert!(plain["leaks"].as_u64() > Some(9000), "{plain}");
    assert!(plain["information_bits"].as_f64() > Some(3.0), "{plain}");
}

#[test]
fn bytes_are_the_same_at_every_length() {
    let result = tunnel::bytes(&[]);
    for row in rows(&result) {
        let expected = match row["scheme"].as_str() {
            Some("sealed") => 22,
            Some("compressed") => 3,
            Some("identifier" | "identifier-paper") => -25,
            Some("encryption-paper") => -3,
            _ => 0,
        };
        let frames = row["frames"].as_array().expect("frames");
        assert!(frames.iter().all(|frame| frame["beside_vxlan"] == expected), "{row}");
    }
}

#[test]
fn a_spoofed_frame_costs_a_round_trip_and_a_narrower_path_five_seconds() {
    let names = named(&["sealed"]);
    let claims = tunnel::claims(&names);
    let row = &rows(&claims)[0];
    assert!(row["frames"].as_u64() > Some(1000) && row["lost"].as_u64() <= Some(3), "{row}");
    let narrowing = tunnel::narrowing(&names);
    let seconds = rows(&narrowing)[0]["worst_seconds"].as_f64().expect("a number");
    assert!((3.0..=5.1).contains(&seconds), "{seconds}");
}
