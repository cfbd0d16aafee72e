#!/usr/bin/env python3
"""What members and their controller say to each other, in version 2, from an implementation of its own
(docs/spec/group.md, sections 4.6, 4.8 and 4.9). Needs the `cryptography` package.

    python3 group_control.py        writes group-control.json beside it
"""

import json
from ipaddress import ip_address
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

VERSION = 2
GROUP = bytes(range(0x47, 0x57))
NUMBER = 0x0102_0304
INSTANCE, COUNTER, NONCE = 0x0A0B_0C0D_0E0F_1011, 3, bytes(range(0x20, 0x28))
EPOCH = 0x0102_0304_0506_0707
SIGNS, AGREES, CONTROLLER = 0x61, 0x51, 0x71
SENDERS = (0, 9, 254)
REASONS = ("no such group", "not a member", "full", "address taken", "roles", "not now", "superseded", "copied",
           "not started", "token used up", "token expired", "not understood", "evicted")


def number(value, length):
    return value.to_bytes(length, "big")


def with_length(value):
    return number(len(value), 1) + value


def signing(byte):
    return Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32).public_key().public_bytes_raw()


def public(signs=SIGNS, agrees=AGREES):
    return signing(signs) + X25519PrivateKey.from_private_bytes(bytes([agrees]) * 32).public_key().public_bytes_raw()


def senders():
    bits = 0
    for sender in SENDERS:
        bits |= 1 << (255 - sender)
    return number(bits, 32)


def grant(depth):
    """Section 4.6: activation 2.5 s, retention 10 s, leaf 1, an anchor of 6s and keys 16 times their level."""
    keys = b"".join(bytes([level]) * 16 for level in range(depth + 1))
    return (bytes([1, 3]) + GROUP + number(EPOCH, 8) + number(25, 2) + number(10, 1) + number(1, 3)
            + number(depth, 1) + bytes([6]) * 16 + keys)


def policy():
    """compact, CCM, source authentication, pairwise responses, a challenge."""
    return (GROUP + with_length(ip_address("ff15::abcd").packed) + number(5684, 2) + bytes([2]) + number(0x1304, 2)
            + bytes([1, 1, 1]) + bytes([0xC1]) * 32 + bytes([0x5E]) * 32)


def start():
    return number(INSTANCE, 8) + number(COUNTER, 4) + NONCE


def request(kind, body, of_member=True):
    return number(VERSION, 1) + number(kind, 1) + number(NUMBER, 4) + (start() if of_member else b"") + body


def answer(kind, body=b""):
    return number(VERSION, 1) + number(kind, 1) + number(NUMBER, 4) + body


def main():
    join = NONCE + with_length("lights".encode()) + bytes([3])
    listeners = bytes([2]) + number(16, 3)
    page = listeners + number(EPOCH, 8) + bytes([2])
    page += bytes([255]) + number(17, 3) + public() + bytes([9]) + number(31, 3) + public(0x62, 0x52)
    names = listeners + number(EPOCH, 8) + bytes([2])
    names += bytes([1]) + with_length("lamp".encode()) + bytes([15]) + with_length("Türschloß".encode())
    requests = {
        "join": request(1, join + with_length(ip_address("fd00::7").packed) + public(), of_member=False),
        "join, IPv4": request(1, join + with_length(ip_address("192.0.2.7").packed) + public(), of_member=False),
        "leave": request(2, GROUP),
        "pull": request(3, bytes([1, 2]) + GROUP + number(EPOCH, 8)),
        "renew": request(4, GROUP + number(EPOCH, 8)),
        "senders": request(5, GROUP),
        "conflict": request(6, GROUP + bytes([9])),
        "lookup of senders": request(7, GROUP + bytes([1]) + number(32, 3)),
        "lookup of listeners": request(7, GROUP + listeners),
        "start": request(8, GROUP + bytes([0])),
        "start, resumes": request(8, GROUP + bytes([1])),
        "key": request(9, bytes(range(0x30, 0x40)), of_member=False),
        "names of listeners": request(10, GROUP + listeners),
    }
    answers = {
        "admitted": answer(1, number(INSTANCE, 8) + policy() + bytes([3, 9]) + signing(CONTROLLER) + senders() + grant(2)),
        "admitted, no sender": answer(
            1, number(INSTANCE, 8) + policy() + bytes([2, 255]) + signing(CONTROLLER) + senders() + grant(2)),
        "noted": answer(2),
        "granted": answer(3, grant(24)),
        "senders": answer(4, senders()),
        "page": answer(6, page),
        "started": answer(7, number(5, 4) + senders() + grant(7)),
        "key": answer(8, NONCE + bytes([0x77]) * 32),
        "names": answer(9, names),
    }
    answers |= {f"refused: {reason}": answer(5, bytes([at])) for at, reason in enumerate(REASONS)}
    file = {
        "requests": {name: message.hex() for name, message in requests.items()},
        "answers": {name: message.hex() for name, message in answers.items()},
    }
    Path(__file__).with_name("group-control.json").write_text(json.dumps(file, indent=1) + "\n")


main()
