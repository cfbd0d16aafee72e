//! The vectors of the specification, which a second implementation made (`vectors/aggregation.py`).

use lightseal_aggregation::{Block, Prf, PrfState, RecordKind, RulerOrder, Scheme, Sealer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The pseudorandom function of the vectors, defined in that file.
struct Function;

impl Prf for Function {
    fn block(&self, state: &PrfState, index: u8) -> Block {
        let mut hash = Sha256::new_with_prefix(b"vector");
        hash.update(&state.as_bytes()[8..]);
        hash.update([index]);
        let digest = hash.finalize();
        core::array::from_fn(|i| digest[i])
    }
}

fn state(number: u64) -> PrfState {
    u128::from(number).to_be_bytes().into()
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("hex");
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn another_implementation_makes_the_same_tags() {
    let file = include_str!("../../vectors/aggregation.json");
    let file: Value = serde_json::from_str(file).expect("JSON");
    let groups = file["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 15 + 2 * 4 + 4);
    for group in groups {
        let scheme: Scheme = group["scheme"].as_str().and_then(|s| s.parse().ok()).expect("a name");
        let order = match &group["order"] {
            Value::Null => RulerOrder::List,
            seed => RulerOrder::Keyed(unhex(seed).try_into().expect("32 bytes")),
        };
        let mut sealer = Sealer::new(scheme, &order).expect("an aggregating scheme");
        for (number, expected) in (0..).zip(group["tags"].as_array().expect("tags")) {
            let mut tag = vec![0; scheme.aggregate_len(number)];
            sealer
                .seal(&Function, number, RecordKind::Data, state(number), &mut tag)
                .expect("numbers are consecutive");
            assert_eq!(tag, unhex(expected), "{scheme} {order:?}, record {number}");
        }
        let closing = sealer.close(&Function);
        assert_eq!(closing.is_none(), group["closing"].is_null(), "{scheme} {order:?}");
        if let Some(closing) = closing {
            let expected = &group["closing"];
            assert_eq!(expected["first"], closing.first, "{scheme} {order:?}");
            assert_eq!(expected["count"], closing.count, "{scheme} {order:?}");
            assert_eq!(closing.tag[..], unhex(&expected["tag"]), "{scheme} {order:?}");
        }
    }
}
