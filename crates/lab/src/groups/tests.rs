use super::*;

fn run(name: &str, seed: u64) -> Outcome {
    let configuration = Configuration::by_name(name).expect(name);
    Transaction::paper(configuration, seed).run().expect(name)
}

#[test]
fn the_same_seed_gives_the_same_course() {
    for configuration in &CONFIGURATIONS {
        assert_eq!(run(configuration.name, 3), run(configuration.name, 3));
        assert_ne!(run(configuration.name, 3), run(configuration.name, 4));
    }
}

#[test]
fn datagrams_are_as_many_as_the_configuration_says() {
    let sent = |name| {
        let Outcome { handshakes, sent_in_handshakes, sent_in_messages, .. } = run(name, 1);
        (handshakes.len(), sent_in_handshakes.datagrams, sent_in_messages)
    };
    // Requests have 23 bytes and responses 27. Records of DTLS 1.2 and of Axiom add 29.
    let messages = |datagrams, bytes| crate::handshakes::Sent { datagrams, bytes, again: 0 };
    assert_eq!(sent("CoAP Uni"), (0, 0, messages(6, 3 * (23 + 27))));
    assert_eq!(sent("CoAP Mul"), (0, 0, messages(4, 23 + 3 * 27)));
    assert_eq!(sent("DTLS Uni-Uni"), (3, 30, messages(6, 3 * (23 + 27 + 2 * 29))));
    assert_eq!(sent("DTLS Mul-Uni"), (3, 30, messages(4, 23 + 3 * 27 + 4 * 29)));
    assert_eq!(sent("DTLS Mul-Mul"), (0, 0, messages(4, 23 + 3 * 27 + 4 * 29)));
    let (_, _, compact) = sent("compact Mul-Mul");
    assert_eq!(compact, messages(4, 23 + 14 + 3 * (27 + 16)));
}

#[test]
fn keys_without_handshakes_cost_no_radio() {
    let axiom = run("DTLS Mul-Mul", 1);
    assert!(axiom.sender.keys.cpu > 0.0 && axiom.listener.keys.cpu > 0.0);
    assert_eq!((axiom.sender.keys.send, axiom.sender.keys.receive), (0.0, 0.0));
    let [uni, mul] = ["DTLS Uni-Uni", "DTLS Mul-Uni"].map(|name| run(name, 1));
    // Both have the same handshakes, and receive as many messages.
    assert_eq!(uni.sender.keys, mul.sender.keys);
    assert!(uni.sender.messages.send > 2.0 * mul.sender.messages.send);
    assert!(uni.sender.sum() > 5.0 * axiom.sender.sum());
    assert!(uni.listener.sum() > 4.0 * axiom.listener.sum());
    assert!(uni.duration > axiom.duration && mul.duration > uni.duration);
}
