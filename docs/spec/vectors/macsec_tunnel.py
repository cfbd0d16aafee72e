#!/usr/bin/env python3
"""Keys, datagrams and messages of the MACsec tunnel from an implementation of its own
(docs/spec/macsec-tunnel.md). Needs the `cryptography` package.

    python3 macsec_tunnel.py        writes macsec-tunnel.json beside it
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

EXPORTED, PROPOSER, ANSWERER = bytes(range(32)), b"\xa0" * 32, b"\xa1" * 32
SENDER, RECEIVER = b"\x01" * 32, b"\x02" * 32
EPOCH, INDEX, LANE, COUNTER = 0x0102, 0xC0FFEE42, 3, 2
PLAIN, SEALED, COMPRESSED, WHOLE, FRAGMENT = 0x08, 0x41, 0x42, 0x43, 0x44
IDENTIFIER, IDENTIFIER_PAPER, ENCRYPTION_PAPER = 0x51, 0x52, 0x53
FLOW, BIDF, AN, PN = 0x0A0B0C, bytes(range(0x60, 0x70)), 2, 0x01020304


def number(value, length):
    return value.to_bytes(length, "big")


def xor(a, b):
    return bytes(p ^ q for p, q in zip(a, b, strict=True))


def extract(salt, ikm):
    return hmac.new(salt, ikm, hashlib.sha256).digest()


def expand_label(secret, label, context, length):
    label = b"dtls13" + label
    info = number(length, 2) + number(len(label), 1) + label + number(len(context), 1) + context
    out, block = b"", b""
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([len(out) // 32 + 1]), hashlib.sha256).digest()
        out += block
    return out[:length]


def aes(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def siphash_2_4(key, data, wide):
    """SipHash as its authors have it, and with 128 bits of output as their reference code does."""
    mask = (1 << 64) - 1
    rotl = lambda x, n: ((x << n) | (x >> (64 - n))) & mask
    k0, k1 = (int.from_bytes(key[at:at + 8], "little") for at in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    if wide:
        v[1] ^= 0xEE

    def rounds(n):
        for _ in range(n):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotl(v[1], 13) ^ v[0]
            v[0] = rotl(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotl(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotl(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotl(v[1], 17) ^ v[2]
            v[2] = rotl(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE if wide else 0xFF
    rounds(4)
    out = (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    if wide:
        v[1] ^= 0xDD
        rounds(4)
        out += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return out


# The vectors of the SipHash paper, appendix A, and of the reference code for 128 bits.
assert siphash_2_4(bytes(range(16)), bytes(range(15)), False).hex() == "e545be4961ca29a1"
assert siphash_2_4(bytes(range(16)), b"", True).hex() == "a3817f04ba25a8e66df67214c7550293"

SECRET = extract(PROPOSER + ANSWERER, EXPORTED)
PAIR = SENDER + RECEIVER + number(EPOCH, 4)
KEY = expand_label(SECRET, b"ls tun key", PAIR + bytes([LANE]), 32)
IV = expand_label(SECRET, b"ls tun iv", PAIR + bytes([LANE]), 12)
BLOCK_KEY = expand_label(SECRET, b"ls tun pcbc", PAIR, 16)


def seal(kind, sealed, text, clear, counter=COUNTER):
    """The datagram that encrypts `text` and carries `clear`; `sealed` is what its prefix says."""
    prefix = (bytes([kind, EPOCH & 0xFF]) + number(INDEX, 4) + bytes([LANE]) + number(counter, 6)
              + bytes([sealed]))
    nonce = xor(IV, bytes([kind, sealed, 0, 0]) + number(counter, 8))
    both = AESGCM(KEY).encrypt(nonce, text, clear)
    return prefix + both[:-16] + clear + both[-16:]


ADDRESSES = bytes.fromhex("0200000001010200000000aa")
SCI = bytes.fromhex("0200000000aa0001")


def header(octet, short_length, pn, vlan=b"", sci=SCI):
    return ADDRESSES + vlan + b"\x88\xe5" + bytes([octet, short_length]) + number(pn, 4) + sci


OCTET = 0x2C | AN
SHORT = bytes(range(0x10, 0x24))
FRAME = header(OCTET, len(SHORT), PN) + SHORT + b"\xcc" * 16
VLAN = b"\x81\x00\x20\x05"
TAGGED = header(0x40 | AN, 0, PN, VLAN, b"") + bytes(64) + b"\xdd" * 16
MKA = bytes.fromhex("0180c2000003 0200000000aa 888e 03050000".replace(" ", "")) + bytes(42)

# Outside of any VLAN, and in VLAN 5.
STATION = number(0, 2) + ADDRESSES[6:]
STATION_IN_VLAN = number(0x1000 | 5, 2) + ADDRESSES[6:]


def identifier(pn):
    full = siphash_2_4(BIDF, number(pn, 8) + bytes([AN, 1]), True)
    return full[:8], full[8:10]


def in_short(pn):
    ridf, mask = identifier(pn)
    return bytes([IDENTIFIER]) + ridf + bytes([0x2C ^ mask[0], len(SHORT) ^ mask[1]]) + FRAME[28:]


def in_short_as_the_paper(pn):
    ridf = siphash_2_4(number(pn & 0xFFFF_FFFF, 16), BIDF, False)
    return bytes([IDENTIFIER_PAPER]) + ridf + bytes([0x2C, len(SHORT)]) + FRAME[28:]


def blocks():
    first, second = FRAME[:16], FRAME[16:32]
    c2 = aes(BLOCK_KEY, second)
    c1 = aes(BLOCK_KEY, xor(first, xor(second, c2)))
    return bytes([ENCRYPTION_PAPER]) + number(INDEX, 4) + c1 + c2 + FRAME[32:]


def register(secret, an):
    bare = header(0x20 | an, 0, 0)
    return b"\x01" + number(FLOW, 3) + number(PN, 8) + bytes([len(secret)]) + secret + bare


def piece(offset, part):
    head = number(0x11223344, 4) + number(offset, 2) + number(len(FRAME), 2)
    covered = 28 if offset == 0 else 0
    return seal(FRAGMENT, 8 + covered, head + part[:covered], part[covered:], COUNTER)


VECTORS = {
    "exported": EXPORTED, "proposer_nonce": PROPOSER, "answerer_nonce": ANSWERER,
    "sender": SENDER, "receiver": RECEIVER, "epoch": EPOCH, "index": INDEX, "lane": LANE,
    "counter": COUNTER, "key": KEY, "iv": IV, "block_key": BLOCK_KEY,
    "flow": FLOW, "bidf": BIDF, "an": AN, "pn": PN,
    "frame": FRAME, "tagged_frame": TAGGED, "mka_frame": MKA,
    "sealed": seal(SEALED, 28, FRAME[:28], FRAME[28:]),
    "sealed_tagged": seal(SEALED, 24, TAGGED[:24], TAGGED[24:]),
    "compressed": seal(COMPRESSED, 9, number(FLOW, 3) + bytes([OCTET, len(SHORT)]) + number(PN, 4), FRAME[28:]),
    "whole": seal(WHOLE, 0, b"\x01" + MKA, b""),
    "station_query": seal(WHOLE, 0, b"\x06" + STATION, b""),
    "station_heard": seal(WHOLE, 0, b"\x07" + STATION_IN_VLAN, b""),
    "station": STATION, "station_in_vlan": STATION_IN_VLAN,
    "fragment_first": piece(0, FRAME[:40]),
    "fragment_last": piece(40, FRAME[40:]),
    "identifiers": [
        {"pn": pn, "ridf": identifier(pn)[0], "mask": identifier(pn)[1],
         "paper": siphash_2_4(number(pn & 0xFFFF_FFFF, 16), BIDF, False)}
        for pn in (0, 1, PN, 0xFFFF_FFFF, 0x1_0000_0000, 2**53)
    ],
    "identifier": in_short(PN),
    "identifier_paper": in_short_as_the_paper(PN),
    "encryption_paper": blocks(),
    "register": register(BIDF, AN),
    "register_compressed": register(b"", 0),
    "register_paper_encryption": register(b"", AN),
    "acknowledge": b"\x02" + number(FLOW, 3),
    "refuse": b"\x03" + number(FLOW, 3),
    "remove": b"\x04" + number(FLOW, 3),
    "beacon": number(FLOW, 3) + number(PN, 8) + number(1, 3) + number(2**40, 8),
}

if __name__ == "__main__":
    shown = lambda value: value.hex() if isinstance(value, bytes) else value
    plain = {
        name: [{key: shown(part) for key, part in entry.items()} for entry in value]
        if isinstance(value, list) else shown(value)
        for name, value in VECTORS.items()
    }
    path = Path(__file__).with_name("macsec-tunnel.json")
    path.write_text(json.dumps(plain, indent=2) + "\n")
