//! A session as a shell script.
//!
//! The script runs as root of namespaces of its own. It writes a line to `results` when a step begins, and one when
//! it ended well or did not; what a step prints goes to `logs/N`. Variables, umask and folder go from one step to the
//! next as in one terminal, whichever host it runs on.

use crate::markdown::Host;
use crate::session::Session;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Exit code of a script whose network or mounts could not be made.
pub(crate) const NO_PLACE: i32 = 90;

/// What runs one step: `$1` is its number.
pub(crate) const STEP: &str = r#"
. "$PLACE/state"
keep() {
    { export -p; umask -p; printf 'cd %q\n' "$PWD"; } > "$PLACE/state.new" && mv "$PLACE/state.new" "$PLACE/state"
}
[ "$2" = ends ] && trap keep EXIT
set -ae -o pipefail
. "$PLACE/steps/$1"
"#;

/// Folders that commands write to are the session's own: what is in /etc stays readable, and pages may name hosts.
const PRIVATE: &str = r#"
mkdir "$PLACE/private" && mount -t tmpfs private "$PLACE/private" || exit 90
mkdir "$PLACE/private/etc" "$PLACE/private/work"
# Its owner may be nobody here, and who is not may not write it.
cp /etc/hosts "$PLACE/private/etc/hosts" 2> /dev/null
mount -t overlay etc -o "lowerdir=/etc,upperdir=$PLACE/private/etc,workdir=$PLACE/private/work" /etc || exit 90
mount -t tmpfs run /run || exit 90
ip link set lo up || exit 90
"#;

/// Runs step `$1` on host `$2` (none: here) and waits for its end, or, where it stays, for `$4`.
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

/// What is done with a step: its number, and whether it stays, with the text that it is awaited by.
pub(crate) struct Planned {
    pub(crate) number: usize,
    pub(crate) stays: Option<&'static str>,
}

/// The script of `planned` steps of `session`.
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

/// Hosts with their interfaces. The other end of each is in a bridge, for those of one name.
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
                // An address whose uniqueness is still being found out cannot be bound.
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
