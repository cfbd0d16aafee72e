//! The signer and the verifier against each other, in virtual time.

use exchange::mac::{Signer, Verifier};
use exchange::{Exchange, Lossy, Options, Request};
use lightseal_net::Instant;
use lightseal_net::either::Either;
use lightseal_net::virtual_time::Network;
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn messages_are_verified_and_altered_ones_are_refused() {
    for loss in [0, 100] {
        let timeout = Duration::from_millis(100);
        let options = Options { payloads: 400, bytes: 300, loss, timeout, ..Options::default() };
        let addresses: [SocketAddr; 2] =
            ["10.0.0.1:1", "10.0.0.2:2"].map(|text| text.parse().unwrap());
        let mut network = Network::new(1);
        let engine = Signer::new(&options, addresses[1], Instant::ZERO).unwrap();
        let signer = network.add(addresses[0], Either::Left(Lossy::new(engine, loss, 7)));
        let verifier = network.add(addresses[1], Either::Right(Verifier::new(&options).unwrap()));
        let mut over = [false; 2];
        while over != [true; 2] {
            let went_on = network.step(|node, _, request| {
                let (Either::Left(request) | Either::Right(request)) = request;
                over[usize::from(node == verifier)] |= request == Request::End;
            });
            assert!(went_on, "the ends wait for each other: {over:?}");
        }
        let (Either::Left(signer), Either::Right(verifier)) =
            (network.engine(signer), network.engine(verifier))
        else {
            panic!("the ends are exchanged");
        };
        let (signed, verified) = (signer.engine().counters(), verifier.counters());
        assert!(signer.engine().succeeded() && verifier.succeeded(), "{signed:?} {verified:?}");
        assert_eq!((signed.confirmed, verified.messages), (400, 400));
        if loss == 0 {
            assert_eq!((signed.signed, verified.verified), ([200; 2], [200; 2]));
            assert_eq!(signed.refused, verified.altered);
        }
    }
}
