#!/usr/bin/env python3
"""Keys and records of a group's profile axiom-1.2 from an implementation of its own (docs/spec/group.md,
section 2). Needs the `cryptography` package.

    python3 group_axiom_1_2.py        writes group-axiom-1.2.json beside it
"""

import hashlib
import hmac
import json
from ipaddress import ip_address
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

PREMASTER = bytes(range(48))
CLIENT_RANDOM, SERVER_RANDOM = b"\xc1" * 32, b"\x5e" * 32
GROUP = bytes(range(0x47, 0x57))
LISTENERS = ["2001:db8::7", "fe80::212:4b00:615:a974", "192.0.2.7"]
CHANGE_CIPHER_SPEC, APPLICATION_DATA = 20, 23


def prf(secret, label, seed, length):
    """RFC 5246, section 5."""
    mac = lambda data: hmac.new(secret, data, hashlib.sha256).digest()
    seed = label + seed
    a, out = seed, b""
    while len(out) < length:
        a = mac(a)
        out += mac(a + seed)
    return out[:length]


MASTER = prf(PREMASTER, b"master secret", CLIENT_RANDOM + SERVER_RANDOM, 48)


class Aead:
    mac_key = 0

    def __init__(self, name, number, make, tag, enc_key=16, fixed_iv=4):
        self.name, self.number, self.make, self.tag = name, number, make, tag
        self.enc_key, self.fixed_iv, self.explicit = enc_key, fixed_iv, 12 - fixed_iv

    def protect(self, keys, iv, nonce, additional, content):
        _, key = keys
        if self.explicit:
            full = iv + nonce
        else:
            # RFC 7905, section 2: the number, padded on the left, XOR the IV.
            full = bytes(a ^ b for a, b in zip(iv, nonce.rjust(12, b"\0")))
        return self.make(key).encrypt(full, content, additional)


class Null:
    name, number = "TLS_PSK_WITH_NULL_SHA256", 0x00B0
    explicit, mac_key, enc_key, fixed_iv, tag = 0, 32, 0, 0, 32

    def protect(self, keys, iv, nonce, additional, content):
        key, _ = keys
        return content + hmac.new(key, additional + content, hashlib.sha256).digest()


SUITES = [
    Aead("TLS_PSK_WITH_AES_128_CCM_8", 0xC0A8, lambda key: AESCCM(key, tag_length=8), 8),
    Aead("TLS_PSK_WITH_AES_128_CCM", 0xC0A4, AESCCM, 16),
    Aead("TLS_PSK_WITH_AES_128_GCM_SHA256", 0x00A8, AESGCM, 16),
    Aead("TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", 0xCCAB, ChaCha20Poly1305, 16, 32, 12),
    Null(),
]


def parts(data, *lengths):
    """`data` in pieces of so many bytes."""
    out = []
    for length in lengths:
        out.append(data[:length])
        data = data[length:]
    assert not data
    return out


class Keys:
    def __init__(self, suite):
        self.suite = suite
        mac, enc, iv = suite.mac_key, suite.enc_key, suite.fixed_iv
        seed = SERVER_RANDOM + CLIENT_RANDOM
        self.block = prf(MASTER, b"key expansion", seed, 2 * (mac + enc + iv))
        pieces = parts(self.block, mac, mac, enc, enc, iv, iv)
        self.client, self.server = (pieces[0], pieces[2]), (pieces[1], pieces[3])
        self.client_iv, self.server_iv = pieces[4:]

    def derived(self, secret, listener, sender):
        address = ip_address(listener)
        if address.version == 4:
            address = ip_address(f"::ffff:{listener}")
        mac, enc = self.suite.mac_key, self.suite.enc_key
        seed = address.packed + sender
        return tuple(parts(prf(secret, b"key derivation", seed, mac + enc), mac, enc))

    def individual(self, listener, sender):
        which = 1 if self.suite.enc_key else 0
        return self.derived(self.client[which] + self.server[which], listener, bytes([sender]))


def record(suite, keys, iv, kind, epoch, id, number, content, explicit=None):
    """header ‖ [explicit nonce] ‖ what is encrypted, with its tag"""
    place = epoch.to_bytes(2, "big") + bytes([id]) + number.to_bytes(5, "big")
    nonce = explicit or place
    kind_and_version = bytes([kind]) + b"\xfe\xfd"
    additional = place + kind_and_version + len(content).to_bytes(2, "big")
    body = nonce[: suite.explicit] + suite.protect(keys, iv, nonce, additional, content)
    return kind_and_version + place + len(body).to_bytes(2, "big") + body


def requests(keys):
    for kind, epoch, sender, number, content in [
        (APPLICATION_DATA, 1, 9, 0, b"on"),
        (APPLICATION_DATA, 1, 9, 1, b""),
        (APPLICATION_DATA, 1, 0, 0x0102030405, bytes(range(16))),
        (APPLICATION_DATA, 0xFFFF, 0xFF, 2**40 - 1, bytes(range(77))),
        (CHANGE_CIPHER_SPEC, 1, 9, 2, b"\x01"),
    ]:
        yield {
            "epoch": epoch,
            "sender": sender,
            "number": number,
            "type": kind,
            "content": content.hex(),
            "record": record(
                keys.suite, keys.server, keys.server_iv, kind, epoch, sender, number, content
            ).hex(),
        }


def responses(keys):
    for i, listener in enumerate(LISTENERS):
        for sender in (9, 0xFF):
            number, content = i * 2**33 + sender, b"done by " + listener.encode()
            key = keys.individual(listener, sender)
            sealed = record(
                keys.suite, key, keys.client_iv, APPLICATION_DATA, 1, GROUP[0], number, content
            )
            yield {
                "listener": listener,
                "sender": sender,
                "key_material": b"".join(key).hex(),
                "epoch": 1,
                "number": number,
                "type": APPLICATION_DATA,
                "content": content.hex(),
                "record": sealed.hex(),
            }


def refused(keys):
    """Requests of epoch 1, which is the receiver's, and why they are refused."""
    suite = keys.suite
    seal = lambda key=keys.server, iv=keys.server_iv, epoch=1, **more: record(
        suite, key, iv, APPLICATION_DATA, epoch, 9, 5, b"on", **more
    )
    good = seal()
    shortened = lambda body: good[:11] + body.to_bytes(2, "big") + good[13 : 13 + body]
    yield "its last bit is wrong", "unauthentic", good[:-1] + bytes([good[-1] ^ 1])
    place = good[3:5] + b"\x08" + good[6:11]
    behind = place + good[21:] if suite.explicit else good[13:]
    yield "its SenderID was changed", "unauthentic", good[:3] + place + good[11:13] + behind
    yield "its type was changed", "unauthentic", b"\x15" + good[1:]
    yield "it is under the client write key", "unauthentic", seal(keys.client)
    yield "its body is empty", "malformed", shortened(0)
    yield "it is a byte shorter than nonce and tag", "malformed", shortened(
        suite.explicit + suite.tag - 1
    )
    yield "its epoch is another, and its tag right", "epoch", seal(epoch=2)
    if suite.explicit:
        yield "its explicit nonce is not its number, and its tag right", "malformed", seal(
            explicit=good[3:10] + b"\x06"
        )
        yield "it is under the client write IV", "unauthentic", seal(iv=keys.client_iv)


def main():
    suites = []
    for suite in SUITES:
        keys = Keys(suite)
        suites.append(
            {
                "name": suite.name,
                "id": f"{suite.number:04x}",
                "overhead": 13 + suite.explicit + suite.tag,
                "key_block": {
                    "client_write_mac_key": keys.client[0].hex(),
                    "server_write_mac_key": keys.server[0].hex(),
                    "client_write_key": keys.client[1].hex(),
                    "server_write_key": keys.server[1].hex(),
                    "client_write_iv": keys.client_iv.hex(),
                    "server_write_iv": keys.server_iv.hex(),
                },
                "requests": list(requests(keys)),
                "responses": list(responses(keys)),
                "refused": [
                    {"why": why, "error": error, "record": sealed.hex()}
                    for why, error, sealed in refused(keys)
                ],
            }
        )
    out = {
        "premaster_secret": PREMASTER.hex(),
        "client_random": CLIENT_RANDOM.hex(),
        "server_random": SERVER_RANDOM.hex(),
        "master_secret": MASTER.hex(),
        "group": GROUP.hex(),
        "suites": suites,
    }
    path = Path(__file__).with_name("group-axiom-1.2.json")
    path.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
