//! Reports from the network about datagrams that did not arrive.

#![cfg(all(feature = "tokio", target_os = "linux"))]

use lightseal_core::AddressPair;
use lightseal_net::socket::{AddressedSocket, bind, report_unreachable};
use std::net::SocketAddr;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_port_where_nobody_listens_is_reported_where_that_is_wanted_and_the_socket_goes_on() {
    for any in ["127.0.0.1:0", "0.0.0.0:0"] {
        let nobody = bind("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap();
        let somebody = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = |peer: SocketAddr| AddressPair::to(peer);
        let socket = bind(any.parse().unwrap()).unwrap();
        report_unreachable(&socket).unwrap();
        let socket = AddressedSocket::new(socket);
        assert_eq!(socket.take_reports(), 0);
        socket.get_ref().writable().await.unwrap();
        socket.try_send_to(b"anybody?", to(nobody)).unwrap();
        let reported = async { while !socket.readable().await.unwrap() {} };
        tokio::time::timeout(PATIENCE, reported).await.expect("a report");
        assert_eq!(socket.take_reports(), 1);
        assert_eq!(socket.take_reports(), 0);
        // The error itself is also returned once.
        let mut buf = [0; 100];
        let told = socket.try_recv_from(&mut buf).unwrap_err();
        assert!(
            matches!(
                told.kind(),
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::WouldBlock
            ),
            "{told}"
        );
        let _ = socket.try_send_to(b"a try", to(somebody.local_addr().unwrap()));
        socket.try_send_to(b"you?", to(somebody.local_addr().unwrap())).unwrap();
        let heard = tokio::time::timeout(PATIENCE, somebody.recv(&mut buf)).await.unwrap();
        assert!(heard.unwrap() > 0);
    }
}
