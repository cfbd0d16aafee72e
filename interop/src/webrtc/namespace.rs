//! A network namespace with one network, in which a browser reaches nobody but us. Firefox takes the loopback
//! interface for no network, so there is another one.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The address of both ends.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Makes the network and starts the program.
const SET_UP: &str = "ip link set lo up \
    && ip link add web0 type veth peer name web1 \
    && ip address add 10.77.0.1/24 dev web0 \
    && ip link set web0 up \
    && ip link set web1 up \
    && exec \"$@\"";

/// Checks that this process can make network namespaces.
///
/// # Errors
/// It cannot; the text says what that takes.
pub fn require() -> Result<(), String> {
    let mut trial = shell("true");
    trial.arg("sh").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match trial.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("needs a network namespace: root, unshare (util-linux) and ip (iproute2)".into()),
    }
}

/// The command that starts `program` in a new namespace with the argument `--at` and the address.
pub fn command(program: &Path) -> Command {
    let mut command = shell(SET_UP);
    command.arg("sh").arg(program).args(["--at", &ADDRESS.to_string()]);
    command
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--", "sh", "-c", script]);
    command
}
