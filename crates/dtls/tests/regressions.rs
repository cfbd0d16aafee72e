//! What once went wrong, beside the topics of the other files.

mod pair;

use dtls::CloseReason;
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

#[test]
fn old_keys_live_until_the_peer_has_used_the_new_ones() {
    for scheme in ["off", "agg:2"] {
        let mut pair = Configs::aggregated(scheme).pair(3);
        pair.connect();
        pair.rule = Box::new(|direction, _, datagram| match direction {
            Direction::ToServer => pass(datagram),
            Direction::ToClient => vec![],
        });
        pair.client.update_keys(pair.now);
        // No ACK for ten minutes: the client has to go on with its old keys.
        pair.run_for(Duration::from_secs(600));
        pair.client_send(b"old keys");
        pair.client_send(b"old keys");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.server_received.len(), 2, "{scheme}");
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(20));
        pair.client_send(b"new keys");
        pair.client_send(b"new keys");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.server_received.len(), 4);
        assert_eq!(epoch_bits(&pair, Direction::ToServer), 4 & 3);
    }
}

#[test]
fn aggregated_data_proves_that_the_finished_arrived() {
    let mut configs = Configs::aggregated("agg:2");
    configs.client.settings.silence = Duration::from_secs(600);
    configs.server.settings.silence = Duration::from_secs(600);
    // Nothing but short data reaches the client once it has answered: no ACK ever does.
    let mut finished = false;
    let mut pair = configs.pair(4).with_rule(move |direction, _, datagram| {
        finished |= direction == Direction::ToServer && datagram[0] & 0xe3 == 0x22;
        let lost = direction == Direction::ToClient && finished && datagram.len() > 37;
        if lost { vec![] } else { pass(datagram) }
    });
    pair.connect();
    for _ in 0..80 {
        pair.server_send(b"reading");
        pair.server_send(b"reading");
        pair.run_for(Duration::from_secs(1));
    }
    pair.assert_connected();
    assert!(pair.client_received.len() > 120, "{}", pair.client_received.len());
}

#[test]
fn a_close_is_answered_by_a_close() {
    let mut pair = Configs::new().pair(5);
    pair.connect();
    let before = pair.log.len();
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    let directions: Vec<_> = pair.log[before..].iter().map(|(d, _)| *d).collect();
    assert_eq!(directions, [Direction::ToServer, Direction::ToClient]);
    assert_eq!(pair.server_closed, Some(CloseReason::Peer));
    assert_eq!(pair.server.open_connections(), 0);
}
