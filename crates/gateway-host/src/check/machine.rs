//! Checks whether this machine has the interfaces and ports that a configuration names.

use super::Finding;
use crate::config::{Config, Mtu};
use crate::sides;
use lightseal_packet_io::Interface;

/// Checks the interfaces of both sides.
pub(super) fn interfaces(config: &Config, findings: &mut Vec<Finding>) {
    let lan = match sides::lan(config) {
        Ok((interface, side)) => {
            link("lan", &interface.name, findings);
            let mismatch = side.queue_mismatch.map(|mismatch| format!("[lan] {mismatch}"));
            findings.extend(mismatch.map(Finding::warning));
            Some(interface)
        }
        Err(error) => {
            findings.push(Finding::error(error));
            None
        }
    };
    match sides::underlay(config, lan.as_ref()) {
        Ok(side) => {
            if let Some(name) = &config.underlay.interface {
                link("underlay", name, findings);
            }
            // Without a requirement for AF_XDP, kernel sockets serve the other queues.
            let mismatch = side.queue_mismatch.filter(|_| side.xdp_required);
            let mismatch = mismatch.map(|mismatch| format!("[underlay] {mismatch}"));
            findings.extend(mismatch.map(Finding::warning));
        }
        Err(error) => findings.push(Finding::error(error)),
    }
    underlay(config, findings);
}

/// Warns if the interface has no link at present.
fn link(section: &str, name: &str, findings: &mut Vec<Finding>) {
    if Interface::is_running(name).is_ok_and(|running| !running) {
        findings.push(Finding::warning(format_args!("[{section}] interface: {name} has no link")));
    }
}

/// Checks that the address and the MTU of the tunnel fit its interface.
fn underlay(config: &Config, findings: &mut Vec<Finding>) {
    let underlay = &config.underlay;
    let has_listen = Interface::with_address(underlay.listen.ip()).ok().flatten();
    if let (Some(name), Some(has_listen)) = (&underlay.interface, &has_listen)
        && underlay.io.wants_xdp()
        && name != has_listen
    {
        let address = underlay.listen.ip();
        let what = format_args!(
            "[underlay] listen: {address} is an address of {has_listen}, not of {name}"
        );
        findings.push(Finding::warning(what));
    }
    let Some(name) = underlay.interface.as_ref().or(has_listen.as_ref()) else { return };
    if let (Mtu::Bytes(mtu), Ok(Interface { mtu_bytes: most, .. })) =
        (underlay.mtu, Interface::find(name))
        && u32::from(mtu) > most
    {
        let what = format_args!("[underlay] mtu: {mtu} is more than the {most} of {name}");
        findings.push(Finding::warning(format_args!("{what}: longer packets are lost")));
    }
}

/// Tries to open all ports, and closes them.
pub(super) async fn ports(config: &Config, findings: &mut Vec<Finding>) {
    findings.extend(sides::datagrams(config).err().map(Finding::error));
    // Kept open while the metrics port is tried, since both settings may name the same port.
    let management = sides::management(config);
    findings.extend(sides::metrics(config).await.err().map(Finding::error));
    findings.extend(management.err().map(Finding::error));
}
