//! What once went wrong, beside the topics of the other files.

mod pair;

use pair::{Configs, Direction, Pair, pass};
use std::time::Duration;

/// The epoch bits of the last datagram in a direction.
fn epoch_bits(pair: &Pair<'_>, direction: Direction) -> u8 {
    pair.log.iter().rev().find(|(d, _)| *d == direction).expect("sent something").1[0] & 3
}

#[test]
fn one_end_may_change_its_keys_again_and_again() {
    let mut pair = Configs::new().pair(1);
    pair.connect();
    for epoch in 4..12u8 {
        pair.client.update_keys(pair.now);
        pair.run_for(Duration::from_secs(1));
        pair.client_send(&[epoch]);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(epoch_bits(&pair, Direction::ToServer), epoch & 3);
        assert_eq!(pair.server_received.last(), Some(&vec![epoch]));
    }
}

#[test]
fn crossing_key_updates_survive_the_loss_of_both_acks() {
    let mut pair = Configs::new().pair(2);
    pair.connect();
    let first = pair.log.len();
    pair.rule =
        Box::new(
            move |_, index, datagram| {
                if (first + 2..first + 4).contains(&index) { vec![] } else { pass(datagram) }
            },
        );
    pair.client.update_keys(pair.now);
    pair.server.update_keys(pair.handle.unwrap(), pair.now);
    pair.run_for(Duration::from_secs(10));
    assert!(pair.log.len() < first + 12, "{} datagrams", pair.log.len() - first);
    pair.client_send(b"a");
    pair.server_send(b"b");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(epoch_bits(&pair, Direction::ToServer), 4 & 3);
    assert_eq!(epoch_bits(&pair, Direction::ToClient), 4 & 3);
    assert_eq!((pair.server_received.len(), pair.client_received.len()), (1, 1));
}
