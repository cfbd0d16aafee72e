#!/bin/busybox sh
# The first process of the guest: it loads modules, makes a namespace for each endpoint, and then
# takes orders from outside.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /etc /var /usr/local/bin
/bin/busybox --install -s /usr/local/bin
# The command ip must be Debian's: busybox's own, which its shell prefers, does not know MACsec.
ip() { /bin/ip "$@"; }
export PATH=/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
ln -s /run /var/run
while read -r module; do modprobe "$module"; done < /modules
ip link set lo up

# Hardware addresses begin with 52:54:00:4d:53:01; the endpoints' namespaces are a, b, c and d.
while read -r name; do
    for link in /sys/class/net/*; do
        [ "$(cat "$link/address")" = "52:54:00:4d:53:0${name#* }" ] || continue
        end=${name% *}
        ip netns add "$end"
        ip link set "${link##*/}" netns "$end" name eth0
        ip netns exec "$end" sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1 net.ipv4.icmp_echo_ignore_broadcasts=0
        ip -n "$end" link set lo up
        ip -n "$end" link set eth0 up
    done
done <<END
a 1
b 2
c 3
d 4
END

for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name")" = control ] && exec 3<> "/dev/${port##*/}"
done
# An order is one line in base64, a script. An answer is one line, the script's status and its
# output in base64.
echo ready >&3
while read -r line <&3; do
    { echo 'ip() { /bin/ip "$@"; }'; echo "$line" | base64 -d; } > /tmp/order
    sh /tmp/order < /dev/null > /tmp/said 2>&1 3>&-
    status=$?
    { echo -n "$status "; base64 -w 0 /tmp/said; echo; } >&3
done
# The control port was closed, so nobody gives orders any more.
poweroff -f
