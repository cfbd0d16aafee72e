#!/usr/bin/env python3
"""Sends one datagram to two proxies that form a loop. Prints JSON: numbers of flows and warnings."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time

from dialogue import KEY, free_port


def main():
    program = os.environ["LIGHTSEAL_PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        keys, stats = os.path.join(folder, "keys.psk"), os.path.join(folder, "stats.json")
        with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(KEY)
        outer, local = free_port(), free_port()

        def proxy(side, listen, connect, more):
            command = [program, "proxy", side, "--psk-file", keys, *more]
            command += ["--listen", f"127.0.0.1:{listen}", "--connect", f"127.0.0.1:{connect}"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            time.sleep(1)
            return process

        server = proxy("server", outer, local, [])
        client = proxy("client", local, outer, ["--stats-file", stats])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hi", ("127.0.0.1", local))
            time.sleep(5)
        for process in [client, server]:
            process.send_signal(signal.SIGTERM)
        said = client.communicate()[1]
        server.communicate()
        with open(stats) as file:
            flows = json.load(file)["flows"]["opened"]
    print(json.dumps({"flows": flows, "warnings": said.count("WARN LOOP")}))


main()
