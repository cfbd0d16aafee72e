//! The servers for status and metrics continue after the process had no free descriptor for a
//! while. The limit applies to the whole process, so this file is a program
//! of its own and has only one test.
#![cfg(target_os = "linux")]

use lightseal_gateway_host::status;
use lightseal_service::http;
use lightseal_service::lifecycle::Lifecycle;
use lightseal_service::metrics::Snapshot;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn a_lack_of_descriptors_passes() {
    let name = format!("lightseal-descriptors-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let listener = status::listen(&directory).unwrap();
    let states = tokio::spawn(status::serve(listener, |_| ready(Ok(serde_json::Value::Null))));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts =
        tokio::spawn(http::serve(listener, Arc::new(Lifecycle::start()), || Snapshot::new("")));
    let unix = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    let tcp = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();

    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    unix.connect(&SockAddr::unix(directory.join("gateway.sock")).unwrap()).unwrap();
    tcp.connect(&address.into()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!states.is_finished(), "status");
    assert!(!counts.is_finished(), "metrics");

    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    status::ask(&directory, &status::Request::Status).await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    states.abort();
    std::fs::remove_dir_all(directory).unwrap();
}
