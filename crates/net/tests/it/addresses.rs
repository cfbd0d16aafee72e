//! Real sockets on all addresses of the machine.

use lightseal_core::AddressPair;
use lightseal_net::socket::{self, AddressedSocket};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// On Linux all of 127.0.0.0/8 is on the loopback interface.
#[cfg(target_os = "linux")]
const ASKED: [[u8; 4]; 2] = [[127, 0, 0, 2], [127, 0, 0, 3]];
#[cfg(not(target_os = "linux"))]
const ASKED: [[u8; 4]; 1] = [[127, 0, 0, 1]];

#[tokio::test]
async fn the_address_that_was_asked_is_told_and_answers() {
    if let Err(reason) = skip::wine("local addresses of datagrams") {
        return skip::test(reason);
    }
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let socket = AddressedSocket::new(socket::bind(listen.parse().unwrap()).unwrap());
        let port = socket.get_ref().local_addr().unwrap().port();
        for asked in ASKED.map(IpAddr::from) {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            // A connected socket receives nothing from other addresses.
            client.connect((asked, port)).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.send(b"ask").unwrap();
            let mut buf = [0; 64];
            let arrived = timeout(PATIENCE, socket.recv_from(&mut buf)).await;
            let (len, way) = arrived.expect("it comes").unwrap();
            assert_eq!(&buf[..len], b"ask");
            assert_eq!(way.local.map(|local| local.to_canonical()), Some(asked), "{listen}");
            assert_eq!(way.peer.port(), client.local_addr().unwrap().port());
            socket.try_send_to(b"answer", way).unwrap();
            assert_eq!(client.recv(&mut buf).unwrap(), 6, "{listen}, {asked}");
        }
    }
}

/// IP fragments long datagrams, as for any other socket. QUIC would forbid that.
#[tokio::test]
async fn long_datagrams_are_carried_too() {
    for (listen, ask) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let socket = AddressedSocket::new(socket::bind(listen.parse().unwrap()).unwrap());
        let port = socket.get_ref().local_addr().unwrap().port();
        let ip: IpAddr = ask.parse().unwrap();
        let Ok(client) = UdpSocket::bind((ip, 0)) else {
            eprintln!("skipped: no {ip} on this machine");
            continue;
        };
        client.connect((ip, port)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let long = vec![7; 60_000];
        client.send(&long).unwrap();
        let mut buf = vec![0; 65_535];
        let arrived = timeout(PATIENCE, socket.recv_from(&mut buf)).await;
        let (len, way) = arrived.expect("it comes").unwrap();
        assert_eq!(len, long.len());
        socket.try_send_to(&buf[..len], way).unwrap();
        assert_eq!(client.recv(&mut buf).unwrap(), long.len());
    }
}

#[tokio::test]
async fn an_address_that_is_gone_leaves_the_choice_to_the_routes() {
    if let Err(reason) = skip::wine("local addresses of datagrams") {
        return skip::test(reason);
    }
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let socket = AddressedSocket::new(socket::bind(listen.parse().unwrap()).unwrap());
        let v6 = listen.starts_with('[');
        let to: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let client = UdpSocket::bind(to).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = client.local_addr().unwrap().port();
        let (ip, gone): (IpAddr, IpAddr) = if v6 {
            ("::ffff:127.0.0.1".parse().unwrap(), "::ffff:192.0.2.77".parse().unwrap())
        } else {
            ("127.0.0.1".parse().unwrap(), "192.0.2.77".parse().unwrap())
        };
        let way = AddressPair { peer: SocketAddr::new(ip, port), local: Some(gone) };
        socket.get_ref().writable().await.unwrap();
        socket.try_send_to(b"answer", way).unwrap();
        assert_eq!(client.recv(&mut [0; 64]).unwrap(), 6);
    }
}
