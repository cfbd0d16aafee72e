//! The blocking driver on real sockets.

use crate::toy;

use lightseal_net::blocking::Driver;
use std::net::UdpSocket;
use std::time::Duration;
use toy::Toy;

#[test]
fn two_engines_talk_on_loopback() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut driver = Driver::new(socket, Toy::server());
        let mut heard = Vec::new();
        while heard.len() < 50 {
            driver.turn(Duration::from_millis(50), |_, (_, number)| heard.push(number)).unwrap();
        }
        heard
    });
    let mut driver = Driver::new(UdpSocket::bind("127.0.0.1:0").unwrap(), Toy::client(address, 50));
    for _ in 0..2000 {
        if driver.engine().is_done() {
            break;
        }
        driver.turn(Duration::from_millis(50), |_, _| {}).unwrap();
    }
    assert!(driver.engine().is_done());
    assert!(server.join().unwrap().iter().copied().eq(0..50));
}

#[test]
fn nobody_listening_is_a_loss_and_no_error() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut driver = Driver::new(UdpSocket::bind("127.0.0.1:0").unwrap(), Toy::client(gone, 1));
    while driver.engine().timeouts < 2 {
        driver.turn(Duration::from_millis(500), |_, _| panic!("nobody there")).unwrap();
    }
    assert_eq!(driver.call(|toy, _| toy.timeouts), 2);
}
