//! Our own MACsec endpoints over our own gateways, with TCP, whose large segments the endpoint
//! splits, and with pings of every length: the set-up for machines without MACsec in their kernel.
//! If there are no namespaces, the test is skipped and prints why.

use interop_gateway::bench::tcp;
use interop_gateway::ends;
use interop_gateway::frames::Side;
use interop_gateway::rows::{self, Ground};
use interop_gateway::site::Mtu;
use interop_gateway::{Failure, gateways, namespace};
use std::path::Path;

/// Rows with AF_XDP and with packet sockets, and one whose frames do not fit one datagram.
const ROWS: [(&str, Mtu); 3] =
    [("sealed", Mtu::ROOMY), ("identifier-packet", Mtu::ROOMY), ("sealed-packet", Mtu::TIGHT)];

#[test]
fn own_ends_talk_over_own_gateways() {
    namespace::sweep();
    let program = gateways::program();
    let all = rows::all(Path::new("/nowhere"), &program);
    let mut missing = Vec::new();
    for (name, mtu) in ROWS {
        let row = all.iter().find(|row| row.name() == name).expect("it is a row");
        let built = row.require().and_then(|()| ends::require(&program));
        let talked =
            built.and_then(|()| row.build(mtu)).and_then(|mut ground| talk(&mut ground, &program));
        match talked {
            Ok(()) => {}
            Err(Failure::NotHere(why)) => missing.push((name, why)),
            Err(why) => panic!("{name}: {why}"),
        }
    }
    if let [(_, why), ..] = &missing[..]
        && missing.len() == ROWS.len()
    {
        return skip::test(why);
    }
    missing.iter().for_each(|(name, why)| skip::part(name, why));
}

fn talk(ground: &mut Ground, program: &Path) -> Result<(), Failure> {
    let rate = tcp::protected(ground, program, 1)?;
    assert!(rate > 0.0);
    // The endpoints start again with the stored keys, so that packet numbers continue.
    let ends = ground.ends.take().expect("TCP went through them");
    let running = ends.start(program, &ground.site)?;
    for (from, to) in [(Side::A, Side::B), (Side::B, Side::A)] {
        for payload in [0, 1, 16, 17, 18, 47, 48, 500, 1440] {
            // One of the pings may be needed to learn where the stations are.
            let line = format!("-q -c 4 -i 0.05 -W 5 -s {payload} {}", ends::address(to));
            let said = ground.site.host(from).run("ping", &line)?;
            let enough = [" 3 received", " 4 received"].iter().any(|count| said.contains(count));
            assert!(enough, "{payload} bytes: {said}");
        }
    }
    drop(running);
    Ok(())
}
