//! A session as a shell script.
//!
//! The script runs as root of namespaces of its own. It writes a line to `results` when a step
//! begins, and another when the step succeeded or failed. What a step prints goes to `logs/N`.
//! Variables, umask and current directory are passed from one step to the next as in one terminal,
//! on whichever host the steps run.

use crate::markdown::Host;
use crate::session::Session;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Exit code of a script that could not create its network or its mounts.
pub(crate) const NO_PLACE: i32 = 90;

/// The script that runs one step, whose number is `$1`.
pub(crate) const STEP: &str = r#"
. "$PLACE/state"
keep() {
    { export -p; umask -p; printf 'cd %q\n' "$PWD"; } > "$PLACE/state.new" && mv "$PLACE/state.new" "$PLACE/state"
}
[ "$2" = ends ] && trap keep EXIT
set -ae -o pipefail
. "$PLACE/steps/$1"
"#;

/// Directories that commands write to belong to the session: `/etc` keeps its readable content, and
/// pages may name hosts.
const PRIVATE: &str = r#"
mkdir "$PLACE/private" && mount -t tmpfs private "$PLACE/private" || exit 90
mkdir "$PLACE/private/etc" "$PLACE/private/work"
# In this namespace its owner may be nobody, and then nobody could write it.
cp /etc/hosts "$PLACE/private/etc/hosts" 2> /dev/null
mount -t overlay etc -o "lowerdir=/etc,upperdir=$PLACE/private/etc,workdir=$PLACE/private/work" /etc || exit 90
mount -t tmpfs run /run || exit 90
ip link set lo up || exit 90
"#;

/// Shell functions that run step `$1` on host `$2` (empty: on the only host). `ends` waits for the
/// end of the step, and `stays` until it has printed `$3`.
const FUNCTIONS: &str = r#"
on() {
    if [ -n "$1" ]; then shift_host="$1"; shift; nsenter --net="/run/netns/$shift_host" "$@"; else shift; "$@"; fi
}
ends() {
    echo "begin $1" >> "$PLACE/results"
    on "$2" bash "$PLACE/step" "$1" ends > "$PLACE/logs/$1" 2>&1 < /dev/null
    code=$?
    [ $code = 0 ] || { echo "failed $1 ended with exit code $code" >> "$PLACE/results"; exit 1; }
    echo "ok $1" >> "$PLACE/results"
}
stays() {
    echo "begin $1" >> "$PLACE/results"
    on "$2" bash "$PLACE/step" "$1" stays > "$PLACE/logs/$1" 2>&1 < /dev/null &
    pid=$!
    for turn in $(seq 600); do
        sleep 0.05
        if [ -n "$3" ]; then
            grep -qE -- "$3" "$PLACE/logs/$1" && { echo "ok $1" >> "$PLACE/results"; return; }
        elif [ "$turn" -ge 20 ] && kill -0 $pid; then
            echo "ok $1" >> "$PLACE/results"; return
        fi
        kill -0 $pid 2> /dev/null || { echo "failed $1 ended instead of staying" >> "$PLACE/results"; exit 1; }
    done
    echo "failed $1 printed no \"$3\" within 30 s" >> "$PLACE/results"
    exit 1
}
"#;

/// A step that is run: its number, and for a command that stays the text that it prints when it is
/// ready.
pub(crate) struct Planned {
    pub(crate) number: usize,
    pub(crate) stays: Option<&'static str>,
}

/// The script for the `planned` steps of `session`.
pub(crate) fn script(session: &Session, planned: &[Planned]) -> String {
    let mut script = format!("{PRIVATE}{FUNCTIONS}");
    network(&session.hosts, &mut script);
    for Planned { number, stays } in planned {
        let host = session.steps[*number].host.as_deref().unwrap_or_default();
        // Formatting into a string cannot fail.
        let _ = match stays {
            Some(ready) => writeln!(script, "stays {number} '{host}' '{ready}'"),
            None => writeln!(script, "ends {number} '{host}'"),
        };
    }
    script
}

/// Creates the hosts with their interfaces. The other ends of interfaces with the same name are in
/// one bridge.
fn network(hosts: &[Host], script: &mut String) {
    let mut links: BTreeMap<&str, usize> = BTreeMap::new();
    for Host { name, interfaces } in hosts {
        let _ = writeln!(
            script,
            "ip netns add {name} && ip -n {name} link set lo up || exit {NO_PLACE}"
        );
        for (interface, addresses) in interfaces {
            let count = links.entry(interface).or_default();
            let bridge = format!("br-{interface}");
            if *count == 0 {
                let _ = writeln!(
                    script,
                    "ip link add name {bridge} type bridge mcast_snooping 0 && ip link set {bridge} up || exit {NO_PLACE}"
                );
            }
            let end = format!("{interface}-{count}");
            *count += 1;
            let _ = writeln!(
                script,
                "ip link add name {end} type veth peer name {interface} netns {name} && \
                 ip link set {end} master {bridge} up || exit {NO_PLACE}"
            );
            for address in addresses {
                // An address cannot be bound while duplicate address detection runs.
                let nodad = if address.contains(':') { " nodad" } else { "" };
                let _ = writeln!(
                    script,
                    "ip -n {name} addr add {address} dev {interface}{nodad} || exit {NO_PLACE}"
                );
            }
            let _ = writeln!(
                script,
                "nsenter --net=/run/netns/{name} sh -c 'echo 0 > /proc/sys/net/ipv6/conf/{interface}/accept_dad' 2> /dev/null\n\
                 ip -n {name} link set {interface} up || exit {NO_PLACE}"
            );
        }
    }
}
