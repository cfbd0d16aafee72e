#!/usr/bin/env python3
"""Measures CoAP exchanges through two proxies, with plain and with shared tags in turns.

The service is libcoap's server. The clients are libcoap's (a process, and so a flow, per exchange)
or aiocoap's (one flow for all). Prints JSON: mean milliseconds under each scheme, and the slower of the
two sharing ones over the time allowed: 1.05 times the mean with plain tags, or 0.3 ms more.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

SCHEMES = ["off", "agg:8", "auto"]
KEY = "sensor:000102030405060708090a0b0c0d0e0f\n"
BLOCKS = bytes(range(256)) * 20  # The large resource: five blocks of 1024 bytes.


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stack:
    """A CoAP server, and for each scheme a server proxy and a client proxy."""

    def __init__(self, program, folder):
        self.processes = []
        service = free_port()
        self.start(["coap-server-notls", "-A", "127.0.0.1", "-d", "100", "-p", str(service)])
        keys = os.path.join(folder, "keys.psk")
        with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(KEY)
        time.sleep(0.5)
        large = os.path.join(folder, "large")
        with open(large, "wb") as file:
            file.write(BLOCKS)
        uri = f"coap://127.0.0.1:{service}/large"
        subprocess.run(["coap-client-notls", "-m", "put", "-b", "1024", "-f", large, uri], check=True)
        self.ports = {}
        for scheme in SCHEMES:
            middle, local = free_port(), free_port()
            for side, listen, connect in [("server", middle, service), ("client", local, middle)]:
                self.start([
                    program, "-q", "proxy", side, "--aggregate", scheme, "--psk-file", keys,
                    "--listen", f"127.0.0.1:{listen}", "--connect", f"127.0.0.1:{connect}",
                ])
                time.sleep(0.5)
            self.ports[scheme] = local

    def start(self, command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.processes.append(process)

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


class Libcoap:
    """Starts a client process for each exchange."""

    def __init__(self, folder):
        self.small = os.path.join(folder, "small")
        with open(self.small, "wb") as file:
            file.write(b"21.5")

    async def exchange(self, port, method):
        uri = f"coap://127.0.0.1:{port}"
        options = {
            "get": ["-m", "get", f"{uri}/time"],
            "put": ["-m", "put", "-f", self.small, f"{uri}/small"],
            "block": ["-m", "get", "-b", "1024", f"{uri}/large"],
        }
        command = ["coap-client-notls", "-B", "10", "-v", "0", *options[method]]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        assert method != "block" or run.stdout.startswith(BLOCKS), run.stdout


class Aiocoap:
    """Uses one client for all exchanges."""

    def __init__(self, _):
        import aiocoap

        self.aiocoap = aiocoap
        self.context = None

    async def exchange(self, port, method):
        aiocoap = self.aiocoap
        if self.context is None:
            self.context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{port}"
        message = {
            "get": lambda: aiocoap.Message(code=aiocoap.GET, uri=f"{uri}/time"),
            "put": lambda: aiocoap.Message(code=aiocoap.PUT, uri=f"{uri}/small", payload=b"21.5"),
            "block": lambda: aiocoap.Message(code=aiocoap.GET, uri=f"{uri}/large"),
        }
        response = await self.context.request(message[method]()).response
        assert response.code.is_successful(), response
        assert method != "block" or response.payload == BLOCKS, response


async def measure(stack, client, method, exchanges):
    took = {scheme: [] for scheme in SCHEMES}
    for number in range(exchanges):
        # The order of the schemes rotates, so that none always goes first.
        for scheme in SCHEMES[number % 3:] + SCHEMES[:number % 3]:
            start = time.perf_counter()
            await client.exchange(stack.ports[scheme], method)
            took[scheme].append(1000 * (time.perf_counter() - start))
    means = {scheme: sum(times) / exchanges for scheme, times in took.items()}
    allowed = max(1.05 * means["off"], means["off"] + 0.3)
    worst = max(means[scheme] for scheme in SCHEMES[1:])
    return {"mean_ms": means, "allowed_ms": allowed, "over_allowed": worst / allowed}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=["libcoap", "aiocoap"], default="libcoap")
    parser.add_argument("--method", choices=["get", "put", "block"], default="get")
    parser.add_argument("--exchanges", type=int, default=2000)
    arguments = parser.parse_args()
    program = os.environ["LIGHTSEAL_PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            client = {"libcoap": Libcoap, "aiocoap": Aiocoap}[arguments.client](folder)
        except ImportError:
            sys.exit("aiocoap is not installed: pip install aiocoap")
        stack = Stack(program, folder)
        try:
            result = asyncio.run(measure(stack, client, arguments.method, arguments.exchanges))
        finally:
            stack.end()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
