#!/usr/bin/env python3
"""Kills the server proxy with SIGKILL while an application sends through two proxies twice a second.

A new server proxy takes its place after 1, 2 and 4 s. Prints JSON: the seconds from each kill to the
next answer, and the bytes of probes.
"""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

from dialogue import KEY, free_port

EVERY = 0.5
AWAY = [1, 1, 1, 2, 2, 2, 4]


def serve(service):
    while True:
        message, sender = service.recvfrom(2000)
        service.sendto(message, sender)


def main():
    program = os.environ["LIGHTSEAL_PROGRAM"]
    service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    service.bind(("127.0.0.1", 0))
    threading.Thread(target=serve, args=[service], daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        keys, stats = os.path.join(folder, "keys.psk"), os.path.join(folder, "stats.json")
        with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(KEY)
        outer, local = free_port(), free_port()

        def proxy(side, listen, connect, more):
            command = [program, "proxy", side, "--psk-file", keys, *more]
            command += ["--listen", f"127.0.0.1:{listen}", "--connect", f"127.0.0.1:{connect}"]
            return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

        server = proxy("server", outer, service.getsockname()[1], [])
        time.sleep(1)
        client = proxy("client", local, outer, ["--stats-file", stats])
        time.sleep(1)
        application = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        application.connect(("127.0.0.1", local))

        def exchange(number):
            """Whether this message is answered before the next one is due."""
            due = time.monotonic() + EVERY
            application.send(b"%d" % number)
            while (left := due - time.monotonic()) > 0:
                application.settimeout(left)
                try:
                    if application.recv(2000) == b"%d" % number:
                        return time.monotonic(), due
                except TimeoutError:
                    pass
            return None, due

        number, seconds = 0, []
        for away in AWAY:
            for _ in range(6):
                number += 1
                answered, due = exchange(number)
                time.sleep(max(0, due - time.monotonic()))
            assert answered, "no answer before the kill"
            server.kill()
            killed = time.monotonic()
            server.wait()
            answered = None
            while not answered and time.monotonic() < killed + 60:
                number += 1
                answered, due = exchange(number)
                if server.poll() is not None and time.monotonic() >= killed + away - EVERY:
                    time.sleep(max(0, killed + away - time.monotonic()))
                    server = proxy("server", outer, service.getsockname()[1], [])
                time.sleep(max(0, due - time.monotonic()))
            seconds.append(round((answered or float("inf")) - killed, 3))
        for process in [client, server]:
            process.send_signal(signal.SIGTERM)
        said = client.communicate()[1]
        server.communicate()
        with open(stats) as file:
            counted = json.load(file)["dtls"]
    result = {
        "longest_s": max(seconds),
        "away_s": AWAY,
        "seconds": seconds,
        "probes": counted["probes"],
        "probe_bytes": counted["probe_bytes"],
        "named": said.count("does not answer; starting a new handshake"),
        "back": said.count("answers again"),
    }
    print(json.dumps(result))


main()
