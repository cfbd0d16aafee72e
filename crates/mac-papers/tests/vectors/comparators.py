#!/usr/bin/env python3
"""Makes vectors of the MACs for comparison over AES-128: EMAC, and PMAC/P with the masks of
src/pmac_parity.rs. The implementation shares no code with the Rust crate.

    python3 comparators.py          prints length, EMAC, PMAC/P
"""

import sys
from pathlib import Path

CRATES = Path(__file__).resolve().parents[3]
sys.path.append(str(CRATES / "lightmac" / "vectors"))
from ciphers import aes  # noqa: E402

KEYS = [bytes([byte]) * 16 for byte in (0x11, 0x22, 0x33, 0x44)]


def encrypt(key, number):
    return int.from_bytes(bytes(aes(KEYS[key], number.to_bytes(16, "big"))), "big")


def padded(message):
    message += b"\x80"
    message += bytes(-len(message) % 16)
    return [int.from_bytes(message[i : i + 16], "big") for i in range(0, len(message), 16)]


def double(number):
    return (number << 1 ^ (0x87 if number >> 127 else 0)) & (1 << 128) - 1


def emac(message):
    chain = 0
    for block in padded(message):
        chain = encrypt(0, chain ^ block)
    return encrypt(1, chain)


def pmac_parity(message):
    *blocks, total = padded(message)
    unit = encrypt(0, 0)
    for i in range(0, len(blocks), 2):
        gray, mask, multiple = i // 2 ^ i // 4, unit, double(unit)
        while gray:
            mask ^= multiple if gray & 1 else 0
            gray, multiple = gray >> 1, double(multiple)
        total ^= encrypt(0, blocks[i] ^ mask)
        if i + 1 < len(blocks):
            total ^= encrypt(1, blocks[i + 1] ^ mask) ^ encrypt(2, blocks[i] ^ blocks[i + 1] ^ mask)
    return encrypt(3, total)


for length in (0, 16, 40, 1000):
    message = bytes(i % 251 for i in range(length))
    print(f"{length} {emac(message):032x} {pmac_parity(message):032x}")
