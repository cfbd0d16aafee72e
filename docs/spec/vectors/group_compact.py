#!/usr/bin/env python3
"""Keys and records of a group's profile compact from an implementation of its own (docs/spec/group.md,
section 3). Needs the `cryptography` package.

    python3 group_compact.py        writes group-compact.json beside it
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

ROOT_KEY = bytes(range(0x30, 0x40))
GROUP = bytes(range(0x47, 0x57))
SENDER, LISTENER = 9, 0x01_0203
SENDER_KEY, LISTENER_KEY = (X25519PrivateKey.from_private_bytes(bytes([b]) * 32) for b in (0x51, 0x52))
SENDER_SIGNS, LISTENER_SIGNS = (Ed25519PrivateKey.from_private_bytes(bytes([b]) * 32) for b in (0x61, 0x62))
BOOT_NONCE, CHALLENGE = bytes(range(0x80, 0x88)), bytes(range(0x90, 0x98))
DATA, SYNC, CHALLENGED = 23, 0xE9, 0xEA


def number(value, length):
    return value.to_bytes(length, "big")


def xor(a, b):
    return bytes(p ^ q for p, q in zip(a, b))


def extract(salt, ikm):
    return hmac.new(salt, ikm, hashlib.sha256).digest()


def expand_label(secret, label, context, length):
    """RFC 8446, section 7.1, with the prefix of RFC 9147, section 5.9."""
    label = b"dtls13" + label
    info = number(length, 2) + number(len(label), 1) + label + number(len(context), 1) + context
    out, block = b"", b""
    while len(out) < length:
        block = hmac.new(secret, block + info + number(len(out) // 32 + 1, 1), hashlib.sha256).digest()
        out += block
    return out[:length]


def aes(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


class Aead:
    """A suite of the RFCs."""

    def __init__(self, name, id, make, tag, key_len=16):
        self.name, self.id, self.make, self.tag, self.key_len = name, id, make, tag, key_len

    def keys(self, secret):
        lengths = (("key", self.key_len), ("iv", 12), ("sn", self.key_len))
        return {label: expand_label(secret, label.encode(), b"", length) for label, length in lengths}

    def seal(self, keys, n, header, content):
        nonce = xor(keys["iv"], number(n, 12))
        return self.make(keys["key"]).encrypt(nonce, content, header)

    def mask(self, keys, sample):
        if self.key_len == 32:
            return Cipher(algorithms.ChaCha20(keys["sn"], sample), None).encryptor().update(bytes(2))
        return aes(keys["sn"], sample)[:2]


class LightMac(Aead):
    """AES-128-CTR and LightMAC (docs/spec/mac-aggregation.md, section 5), whose tag may end early."""

    def __init__(self, name, id, tag):
        super().__init__(name, id, None, tag)

    def keys(self, secret):
        keys = {label: expand_label(secret, label.encode(), bytes(3), length)
                for label, length in (("key", 16), ("iv", 12), ("sn", 16), ("lm1", 16))}
        return keys | {"lm2": expand_label(secret, b"lm2", bytes(4), 16)}

    def seal(self, keys, n, header, content):
        counter = xor(keys["iv"], number(n, 12)) + bytes(4)
        content = Cipher(algorithms.AES(keys["key"]), modes.CTR(counter)).encryptor().update(content)
        message = number(n, 6) + number(len(header), 1) + header + content
        state, i = bytes(16), 1
        while len(message) >= 14:
            state = xor(state, aes(keys["lm1"], number(i, 2) + message[:14]))
            message, i = message[14:], i + 1
        state = xor(state, (message + b"\x80").ljust(16, b"\0"))
        return content + aes(keys["lm2"], state)[:self.tag]


SUITES = [
    LightMac("AES_128_CTR_LIGHTMAC_8_SHA256", 0xFF02, 8),
    LightMac("AES_128_CTR_LIGHTMAC_SHA256", 0xFF01, 16),
    Aead("TLS_AES_128_CCM_8_SHA256", 0x1305, lambda key: AESCCM(key, 8), 8),
    Aead("TLS_AES_128_CCM_SHA256", 0x1304, AESCCM, 16),
    Aead("TLS_AES_128_GCM_SHA256", 0x1301, AESGCM, 16),
    Aead("TLS_CHACHA20_POLY1305_SHA256", 0x1303, ChaCha20Poly1305, 16, 32),
]


def schedule(epoch):
    place = GROUP + number(epoch, 8)
    epoch_secret = extract(place, ROOT_KEY)
    shared = SENDER_KEY.exchange(LISTENER_KEY.public_key())
    public = [key.public_key().public_bytes_raw() for key in (SENDER_KEY, LISTENER_KEY)]
    ids = number(SENDER, 1) + number(LISTENER, 3)
    pair = expand_label(extract(epoch_secret, shared), b"ls g pair", place + ids + b"".join(public), 32)
    return {
        "epoch": epoch_secret,
        "shared": shared,
        "pair": pair,
        "requests": expand_label(epoch_secret, b"ls g req", ids[:1], 32),
        "responses": expand_label(epoch_secret, b"ls g rsp", ids, 32),
        "pairwise": expand_label(pair, b"ls g rsp", BOOT_NONCE, 32),
        "answers": expand_label(pair, b"ls g ans", CHALLENGE, 32),
        "direct": expand_label(pair, b"ls g dir", b"", 32),
    }


def record(suite, keys, stream, epoch, n, form, payload, kind=DATA, padding=0, signed=False, request=None):
    of_listener = stream in ("responses", "pairwise")
    cid = GROUP[:1] + (number(LISTENER, 3) if of_listener else number(SENDER, 1))
    cid += number(LISTENER, 3) if stream == "direct" else b""
    plain = payload + number(kind, 1) + bytes(padding)
    body_len = len(plain) + (64 if signed else 0) + suite.tag
    if form in ("last", "followed"):
        flags = 0x38 | (0x04 if form == "followed" else 0) | epoch & 3
        header = number(flags, 1) + cid + number(n & 0xFFFF, 2)
        header += number(body_len, 2) if form == "followed" else b""
    else:
        what = {"requests": 0, "answers": 1, "responses": 2, "pairwise": 2, "direct": 5}[stream]
        what = 3 if form == "boot" else what
        header = number(0xF8 | (0x04 if signed else 0) | what, 1) + cid + number(epoch, 8) + number(n, 6)
        header += number(request, 6) + BOOT_NONCE if form == "boot" else b""
    if signed:
        place = GROUP + number(epoch, 8) + number(SENDER, 1)
        domain, key = b"lightseal group record\0", SENDER_SIGNS
        if of_listener:
            place += number(LISTENER, 3)
            domain, key = b"lightseal group response\0", LISTENER_SIGNS
        plain += key.sign(domain + place + number(n, 6) + header + plain)
    body = suite.seal(keys, n, header, plain)
    if form in ("last", "followed"):
        sample = body[:16] if len(body) >= 16 else body.ljust(15, b"\0") + number(len(body), 1)
        header = header[:len(cid) + 1] + xor(header[len(cid) + 1:], suite.mask(keys, sample)) + header[len(cid) + 3:]
    vector = {"stream": stream, "number": n, "form": form, "type": kind, "payload": payload.hex()}
    if padding:
        vector["padding"] = padding
    if signed:
        vector["signed"] = True
    if request is not None:
        vector["request"] = request
    return vector | {"record": (header + body).hex()}


def records(suite, secrets, epoch):
    keys = {name: suite.keys(secrets[name]) for name in ("requests", "responses", "pairwise", "answers", "direct")}

    def make(stream, n, form, payload, **more):
        return record(suite, keys[stream], stream, epoch, n, form, payload, **more)

    yield make("requests", 0, "last", b"on")
    yield make("requests", 1, "last", b"")
    yield make("requests", 0x1_0002, "followed", bytes(range(16)), padding=5)
    yield make("requests", 0x0A0B_0C0D_0E0F, "last", b"on", signed=True)
    yield make("requests", 0x0A0B_0C0D_0E10, "full", b"", kind=SYNC)
    yield make("requests", 0x0A0B_0C0D_0E11, "full", b"", kind=SYNC, signed=True)
    yield make("requests", 0x0A0B_0C0D_0E12, "full", CHALLENGE, kind=CHALLENGED, signed=True)
    yield make("responses", 0, "last", b"2.05")
    yield make("responses", 0xFFFF_FFFF_FFFF, "last", b"2.05", signed=True)
    yield make("responses", 7, "full", CHALLENGE, kind=CHALLENGED)
    yield make("pairwise", 0, "boot", CHALLENGE, kind=CHALLENGED, request=0x0A0B_0C0D_0E0F)
    yield make("pairwise", 1, "boot", b"2.05", request=0x0A0B_0C0D_0E0F)
    yield make("pairwise", 2, "last", b"2.05")
    yield make("answers", 0x0A0B_0C0D_0E13, "full", CHALLENGE, kind=CHALLENGED)
    yield make("direct", 0x0A0B_0C0D_0E14, "full", b"on")
    yield make("direct", 0x0A0B_0C0D_0E15, "full", b"", padding=3)


def replay(epoch):
    """Direct requests as they reach a listener, one after the other, and what becomes of each (section 3.11)."""
    suite = SUITES[0]
    keys = {name: suite.keys(secret) for name, secret in schedule(epoch).items() if name in ("requests", "direct", "answers")}

    def made(n, of=epoch, stream="direct"):
        vector = record(suite, keys[stream], "direct", of, n, "full", b"on")
        return bytes.fromhex(vector["record"])

    def altered(at, bit, n=2000):
        bytes_ = bytearray(made(n))
        bytes_[at] ^= bit
        return bytes(bytes_)

    steps = [
        (made(1000), "taken"),
        (made(1000), "replayed"),
        (made(1001), "taken"),
        (made(873), "replayed"),                        # 128 behind the highest
        (made(874), "taken"),                           # the last that the window covers
        (made(1002, stream="requests"), "unauthentic"),  # under the key that all members have
        (made(1003, stream="answers"), "unauthentic"),
        (altered(2 + 2, 1), "stranger"),                # another ListenerID
        (altered(5 + 7, 1), "epoch"),
        (altered(18, 1), "unauthentic"),                # another number
        (altered(0, 2), "malformed"),
    ]
    return {"epoch": f"{epoch:016x}", "suite": suite.name,
            "records": [{"record": bytes_.hex(), "outcome": outcome} for bytes_, outcome in steps]}


def main():
    epochs = []
    for epoch in (0, 0x0102_0304_0506_0707):
        secrets = schedule(epoch)
        suites = []
        for suite in SUITES:
            keys = {label: value.hex() for label, value in suite.keys(secrets["requests"]).items()}
            suites.append({"name": suite.name, "id": f"{suite.id:04x}", "tag": suite.tag, "request_keys": keys,
                           "records": list(records(suite, secrets, epoch))})
        secrets = {name: value.hex() for name, value in secrets.items()}
        epochs.append({"epoch": f"{epoch:016x}", "secrets": secrets, "suites": suites})
    x25519 = {"sender": SENDER_KEY, "listener": LISTENER_KEY}
    ed25519 = {"sender": SENDER_SIGNS, "listener": LISTENER_SIGNS}
    file = {
        "root_key": ROOT_KEY.hex(),
        "group": GROUP.hex(),
        "sender": SENDER,
        "listener": LISTENER,
        "boot_nonce": BOOT_NONCE.hex(),
        "challenge": CHALLENGE.hex(),
        "x25519": {who: {"private": key.private_bytes_raw().hex(), "public": key.public_key().public_bytes_raw().hex()}
                   for who, key in x25519.items()},
        "ed25519": {who: {"seed": key.private_bytes_raw().hex(), "public": key.public_key().public_bytes_raw().hex()}
                    for who, key in ed25519.items()},
        "epochs": epochs,
        "replay": replay(0x0102_0304_0506_0707),
    }
    Path(__file__).with_name("group-compact.json").write_text(json.dumps(file, indent=1) + "\n")


main()
