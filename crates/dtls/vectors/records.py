#!/usr/bin/env python3
"""Whole records and messages of MAC aggregation from a second implementation (docs/spec/mac-aggregation.md),
in plain Python, which shares nothing with the Rust crates.

    python3 records.py        writes records.json beside it
"""

import hashlib
import hmac
import json
import sys
from pathlib import Path

CRATES = Path(__file__).resolve().parents[2]
sys.path += [str(CRATES / "lightmac" / "vectors"), str(CRATES / "aggregation" / "vectors")]

from aggregation import bits, delay, drawn, octets, rulers, xor  # noqa: E402
from ciphers import aes  # noqa: E402
from lightmac import expand_label, lightmac  # noqa: E402

SECRET = bytes(range(32))
EPOCH_BITS = 3
APPLICATION_DATA, CLOSING, LOSS_REPORT, EPOCH_END = 23, 0xE0, 0xE1, 0xE2
CLOSING_BLOCK, CHECK_BLOCK = 255, 253


def xored(a, b):
    return bytes(p ^ q for p, q in zip(a, b))


def counter_mode(key, first, data):
    """Encryption under counter blocks that begin with `first` and count in the remaining bytes."""
    size = 16 - len(first)
    blocks = range(-(-len(data) // 16))
    return lambda start: xored(
        data, b"".join(aes(key, first + (start + j).to_bytes(size, "big")) for j in blocks)
    )


class LightMac:
    name = "AES_128_CTR_LIGHTMAC_SHA256"
    encrypts = True

    def __init__(self, ctx):
        self.ctx = ctx
        self.key, self.k1 = (expand_label(SECRET, label, ctx, 16) for label in (b"key", b"lm1"))

    def seal(self, nonce, header, plain, number):
        """The content as it is sent, and the function F_i."""
        sealed = counter_mode(self.key, nonce, plain)(0)
        message = number.to_bytes(6, "big") + bytes([len(header)]) + header + sealed

        def f(i):
            k2 = expand_label(SECRET, b"lm2", self.ctx + bytes([i]), 16)
            return lightmac(aes, self.k1, k2, message, 16, 128, 128)

        # The last step of F_i: the block cipher under K2.
        f.step = lambda i, block: aes(expand_label(SECRET, b"lm2", self.ctx + bytes([i]), 16), block)
        return sealed, f


class Ccm:
    name = "AES_128_CCM_SHA256"
    encrypts = True

    def __init__(self, ctx):
        self.ctx, self.key = ctx, expand_label(SECRET, b"key", ctx, 16)

    def seal(self, nonce, header, plain, _):
        """RFC 3610 with a length field of 3 bytes and a tag of 16."""
        padded = lambda data: data + bytes(-len(data) % 16)
        first = bytes([0x40 | 7 << 3 | 2]) + nonce + len(plain).to_bytes(3, "big")
        mac = bytes(16)
        blocks = first + padded(len(header).to_bytes(2, "big") + header) + padded(plain)
        for at in range(0, len(blocks), 16):
            mac = aes(self.key, xored(mac, blocks[at : at + 16]))
        prefix = bytes([2]) + nonce
        tag = xored(mac, aes(self.key, prefix + bytes(3)))

        def f(i):
            key = expand_label(SECRET, b"agg x", self.ctx + bytes([i]), 16)
            return tag if i == 0 else aes(key, tag)

        f.step = lambda i, block: aes(expand_label(SECRET, b"agg x", self.ctx + bytes([i]), 16), block)
        return counter_mode(self.key, prefix, plain)(1), f


class Hmac:
    name = "SHA256_SHA256"
    encrypts = False

    def __init__(self, ctx):
        self.ctx, self.key = ctx, expand_label(SECRET, b"key", ctx, 32)

    def seal(self, nonce, header, plain, _):
        block = hmac.new(self.key, nonce + header + plain, hashlib.sha256).digest()[:16]

        def f(i):
            if i == 0:
                return block
            return step(i, block)

        def step(i, block):
            key = expand_label(SECRET, b"agg x", self.ctx + bytes([i]), 32)
            return hmac.new(key, bytes([i]) + block, hashlib.sha256).digest()[:16]

        f.step = step
        return plain, f


class Epoch:
    """The sending side of an epoch."""

    def __init__(self, suite, scheme):
        name, parameter = scheme.split(":")
        parameter, *option = parameter.split("+")
        parameter = int(parameter)
        self.checked = bool(option)
        self.n = parameter if name == "agg" else None
        ctx = {
            ("agg", False): bytes([1, parameter, 0]),
            ("r2d2", False): bytes([2, 8, parameter]),
            ("sliding", False): bytes([0x80, 8, parameter]),
            ("agg", True): bytes([0x81, parameter, 0]),
            ("r2d2", True): bytes([0x82, 8, parameter]),
        }[name, self.checked]
        self.suite = suite(ctx)
        iv_bytes = 12 if self.suite.encrypts else 32
        self.iv = expand_label(SECRET, b"iv", ctx, iv_bytes)
        self.sn = expand_label(SECRET, b"sn", ctx, 16)
        if not self.n:
            t = -(-16 * (100 + parameter) // 100)
            seed = expand_label(SECRET, b"agg rulers", ctx, 32)
            every = rulers()
            self.sets = [every[place] for place in drawn(seed, t)]
            if name == "sliding":
                self.sets = [list(range(8))] * t
        self.sent = []

    def aggregate(self):
        """The aggregate that the last record carries."""
        i = len(self.sent) - 1
        if self.n:
            last = i % self.n == self.n - 1
            return xor(f(0) for f in self.sent[i - self.n + 1 :]) if last else b""
        t = len(self.sets)
        tag = []
        for j in range(t):
            bit = 0
            for k, d in enumerate(self.sets[j]):
                if d <= i:
                    f = self.sent[i - d]
                    bit ^= bits(f(0) + f(1) + f(2))[k * t + j]
            tag.append(bit)
        return octets(tag)

    def check(self, f, aggregate):
        if not self.checked:
            return b""
        block = f(CHECK_BLOCK)
        if aggregate:
            block = f.step(CHECK_BLOCK, xored(block, aggregate.ljust(16, b"\0")))
        return block[:1]

    def seal(self, kind, content, long):
        number = len(self.sent)
        nonce = (int.from_bytes(self.iv, "big") ^ number).to_bytes(len(self.iv), "big")
        size = 2 if long else 1
        flags = 0x20 | (8 if long else 0) | EPOCH_BITS
        clear = (number % 256**size).to_bytes(size, "big")
        body, f = self.suite.seal(nonce, bytes([flags]) + clear, bytes([kind]) + content, number)
        self.sent.append(f)
        aggregate = self.aggregate()
        behind = body + (f(0) if kind != APPLICATION_DATA else b"") + aggregate + self.check(f, aggregate)
        if self.suite.encrypts:
            sample = behind[:16]
            if len(sample) < 16:
                sample = sample.ljust(15, b"\0") + bytes([len(sample)])
            clear = xored(clear, aes(self.sn, sample))
        return bytes([flags]) + clear + behind

    def close(self):
        """The content of a closing tag in the next record."""
        m = len(self.sent)
        count = m % self.n if self.n else min(m, delay(self.sets))
        tag = xor(f(CLOSING_BLOCK) for f in self.sent[m - count :])
        return bytes([count, count]) + tag


def records():
    schemes = [f"agg:{n}" for n in (2, 4, 16)]
    schemes += [f"{name}:{o}" for name in ("r2d2", "sliding") for o in (50, 100, 150, 200)]
    schemes += ["agg:2+check", "agg:4+check", "r2d2:50+check", "r2d2:200+check"]
    for suite in (LightMac, Ccm, Hmac):
        for scheme in schemes:
            epoch = Epoch(suite, scheme)
            sealed = []

            def seal(kind, content, long):
                record = epoch.seal(kind, content, long)
                sealed.append({"type": kind, "content": content.hex(), "record": record.hex()})

            for i in range(17):
                # Lengths of 1 to 41 bytes, shorter and longer than a mask's sample.
                seal(APPLICATION_DATA, bytes(range(1 + i * i % 41)), i % 2 == 0)
            seal(CLOSING, epoch.close(), True)
            seal(LOSS_REPORT, (1966).to_bytes(2, "big"), True)
            seal(APPLICATION_DATA, b"on it goes", False)
            yield {"suite": suite.name, "scheme": scheme, "records": sealed}


def messages():
    agg = lambda n: bytes([1, n])
    r2d2 = lambda o: bytes([2, 8, o])
    sliding = lambda o: bytes([0x80, 2, 8, o])
    checked_agg = lambda n: bytes([0x81, 1, n])
    checked_r2d2 = lambda o: bytes([0x82, 2, 8, o])
    lists = [
        (["agg:8", "agg:2"], ["r2d2:50"], agg(8) + agg(2) + b"\0" + r2d2(50)),
        ([], ["sliding:100", "agg:16"], b"\0" + sliding(100) + agg(16)),
        (["r2d2:200"], [], r2d2(200) + b"\0"),
        (["agg:8+check", "agg:8"], ["r2d2:50+check"], checked_agg(8) + agg(8) + b"\0" + checked_r2d2(50)),
    ]
    answers = [
        ("agg:8", "r2d2:50", agg(8) + b"\0" + r2d2(50)),
        ("off", "agg:16", b"\0\0" + agg(16)),
        ("sliding:150", "off", sliding(150) + b"\0\0"),
        ("agg:16+check", "r2d2:100+check", checked_agg(16) + b"\0" + checked_r2d2(100)),
    ]
    updates = [("off", b"\0"), ("agg:4", agg(4)), ("r2d2:100", r2d2(100)), ("sliding:50", sliding(50))]
    updates += [("agg:4+check", checked_agg(4)), ("r2d2:150+check", checked_r2d2(150))]
    tag = bytes(range(16))
    ends = [
        (0, None, bytes(6)),
        (12, (8, 4), (12).to_bytes(6, "big") + bytes([4, 4]) + tag),
    ]
    return {
        "requests": [
            {"to_client": down, "to_server": up, "content": content.hex()}
            for down, up, content in lists
        ],
        "answers": [
            {"to_client": down, "to_server": up, "content": content.hex()}
            for down, up, content in answers
        ],
        "updates": [{"scheme": scheme, "body": body.hex()} for scheme, body in updates],
        "epoch_ends": [
            {
                "records": count,
                "closing": closing and {"first": closing[0], "count": closing[1], "tag": tag.hex()},
                "content": content.hex(),
            }
            for count, closing, content in ends
        ],
    }


def main():
    out = {"traffic_secret": SECRET.hex(), "epoch": 3, "messages": messages(), "groups": list(records())}
    Path(__file__).with_name("records.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
