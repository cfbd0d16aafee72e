//! Whether this machine has the interfaces and ports that a configuration names.

use super::check::Finding;
use super::{Config, Mtu};
use crate::sides;
use packet_io::Interface;

/// Looks at both sides' interfaces.
pub(super) fn interfaces(config: &Config, findings: &mut Vec<Finding>) {
    let lan = match sides::lan(config) {
        Ok((interface, side)) => {
            link("lan", &interface.name, findings);
            let spread = side.spread.map(|spread| format!("[lan] {spread}"));
            findings.extend(spread.map(Finding::warning));
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
            // Otherwise the kernel has the rest.
            let spread = side.spread.filter(|_| side.only);
            let spread = spread.map(|spread| format!("[underlay] {spread}"));
            findings.extend(spread.map(Finding::warning));
        }
        Err(error) => findings.push(Finding::error(error)),
    }
    underlay(config, findings);
}

/// Whether frames come and go there now.
fn link(section: &str, name: &str, findings: &mut Vec<Finding>) {
    if Interface::is_running(name).is_ok_and(|running| !running) {
        findings.push(Finding::warning(format_args!("[{section}] interface: {name} has no link")));
    }
}

/// Whether the tunnel's addresses and lengths are those of its interface.
fn underlay(config: &Config, findings: &mut Vec<Finding>) {
    let underlay = &config.underlay;
    let has_listen = Interface::with_address(underlay.listen.ip()).ok().flatten();
    if let (Some(name), Some(has_listen)) = (&underlay.interface, &has_listen)
        && underlay.io.wants_xdp()
        && name != has_listen
    {
        let address = underlay.listen.ip();
        let what = format_args!("[underlay] listen: {address} is {has_listen}'s, not {name}'s");
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

/// Tries all ports, and lets go of them.
pub(super) async fn ports(config: &Config, findings: &mut Vec<Finding>) {
    findings.extend(sides::datagrams(config).err().map(Finding::error));
    // Open while the next one is: they may be the same.
    let management = sides::management(config);
    findings.extend(sides::metrics(config).await.err().map(Finding::error));
    findings.extend(management.err().map(Finding::error));
}
