#!/usr/bin/env python3
"""Makes LightMAC vectors. The implementation works on bit strings as the paper's Algorithm 1
does, and shares no code with the Rust crate.

    python3 lightmac.py           writes lightmac_aes.json and lightmac_speck.json beside it
    python3 lightmac.py record    prints the vector of Lightseal's record construction
"""

import hashlib
import hmac
import json
import sys
from pathlib import Path

from ciphers import aes, speck

FLAGS = {
    "Normal": "a tag that is right",
    "Limit": "the longest message that the counter allows, 2^s (n - s) bits, in whole bytes",
    "TooLong": "a message with at least one bit more; its tag is made with a counter that "
    "repeats. It must be refused",
    "ModifiedTag": "one bit of the tag is flipped",
    "ModifiedMessage": "one bit of the message is flipped",
    "PaddingForgery": "the tag of M with the message M || 80. A known implementation pads so "
    "that both have the same tag: who sees one can forge the other",
    "TrailingBits": "the tag is the least significant t bits of the last block. The paper's "
    "text says so; its authors' code and their vectors take the leading t bits",
    "StrayBits": "a bit behind the t-th of the last byte is set",
    "TagLength": "the tag has a byte too few or too many",
    "KeyOrder": "K1 and K2 are exchanged",
}


def last_block(cipher, k1, k2, message, s, n):
    """The last block E_K2(V) as a string of bits."""
    bits = "".join(f"{b:08b}" for b in message)
    v, i = 0, 1
    while len(bits) >= n - s:
        block = f"{i % 2**s:0{s}b}" + bits[: n - s]
        v ^= int.from_bytes(cipher(k1, int(block, 2).to_bytes(n // 8, "big")), "big")
        bits, i = bits[n - s :], i + 1
    v ^= int((bits + "1").ljust(n, "0"), 2)
    return f"{int.from_bytes(cipher(k2, v.to_bytes(n // 8, 'big')), 'big'):0{n}b}"


def packed(bits):
    """A string of bits as bytes. A last partial byte is filled with zeros."""
    return bytes(int(bits[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))


def limit_bytes(s, n):
    return 2**s * (n - s) // 8


def lightmac(cipher, k1, k2, message, s, t, n):
    """The tag as bytes."""
    if 8 * len(message) > 2**s * (n - s):
        raise ValueError("too long")
    return packed(last_block(cipher, k1, k2, message, s, n)[:t])


def pattern(label, length):
    """Reproducible bytes with no structure."""
    out, i = b"", 0
    while len(out) < length:
        out += hashlib.sha256(f"{label}/{i}".encode()).digest()
        i += 1
    return out[:length]


def flipped(data, bit):
    data = bytearray(data)
    data[bit // 8] ^= 0x80 >> bit % 8
    return bytes(data)


def edges(s, n, counts):
    """Message lengths in bytes around the ends of these numbers of blocks."""
    ends = [count * (n - s) // 8 for count in counts]
    return sorted({end + off for end in ends for off in (-1, 0, 1) if end + off >= 0})


def group(cipher, n, key_bytes, s, t, lengths):
    tests = []

    def add(flag, comment, key, message, tag, valid):
        test = {"comment": comment, "flags": [flag], "key": key, "msg": message, "tag": tag}
        tests.append(test | {"result": "valid" if valid else "invalid"})

    def halves(key):
        return key[:key_bytes], key[key_bytes:]

    def refuse(flag, comment, key, message, tag):
        too_long = 8 * len(message) > 2**s * (n - s)
        if too_long or lightmac(cipher, *halves(key), message, s, t, n) != tag:
            add(flag, comment, key, message, tag, False)
        else:
            # A short tag may be right by chance.
            assert t <= 16, comment

    most = limit_bytes(s, n)
    for length in lengths:
        label = f"lightmac {n} {key_bytes} {s} {t} {length}"
        key, message = pattern(label + " key", 2 * key_bytes), pattern(label + " msg", length)
        block = last_block(cipher, *halves(key), message, s, n)
        tag = packed(block[:t])
        if length > most:
            refuse("TooLong", f"length {length}: {8 * length} bits, limit {2**s * (n - s)}", key, message, tag)
            continue
        flag = "Limit" if length == most else "Normal"
        add(flag, f"length {length}", key, message, tag, True)
    # Invalid cases are made from a message of a little more than two blocks, or of as much as
    # the counter allows.
    length = min(2 * (n - s) // 8 + 2, most - 1)
    label = f"lightmac {n} {key_bytes} {s} {t} wrong"
    key, message = pattern(label + " key", 2 * key_bytes), pattern(label + " msg", length)
    block = last_block(cipher, *halves(key), message, s, n)
    tag = packed(block[:t])
    add("Normal", "the cases below are made of this one", key, message, tag, True)
    for bit in sorted({0, t // 2, t - 1}):
        refuse("ModifiedTag", f"bit {bit} flipped", key, message, flipped(tag, bit))
    for bit in (0, 8 * length - 1):
        refuse("ModifiedMessage", f"bit {bit} flipped", key, flipped(message, bit), tag)
    refuse("PaddingForgery", "80 appended", key, message + b"\x80", tag)
    # With the byte 80, the last block is full if n - s is a multiple of 8.
    start = message[: (n - s) // 8 - 1]
    its_tag = lightmac(cipher, *halves(key), start, s, t, n)
    refuse("PaddingForgery", "80 appended, a whole block", key, start + b"\x80", its_tag)
    if t < n and block[-t:] != block[:t]:
        refuse("TrailingBits", f"the last {t} bits", key, message, packed(block[-t:]))
    if t % 8:
        stray = flipped(tag, 8 * len(tag) - 1)
        refuse("StrayBits", "the last bit of the last byte set", key, message, stray)
    refuse("TagLength", "a byte too few", key, message, tag[:-1])
    refuse("TagLength", "a byte too many", key, message, tag + b"\0")
    refuse("KeyOrder", "K2 || K1", key[key_bytes:] + key[:key_bytes], message, tag)
    return {
        "type": "MacTest",
        "keySize": 16 * key_bytes,
        "counterBits": s,
        "tagSize": t,
        "tests": tests,
    }


def aes_groups():
    n = 128
    for key_bytes in (16, 32, 24):
        for s in (1, 7, 8, 16, 40, 64) if key_bytes != 24 else (24,):
            most = limit_bytes(s, n)
            # Lengths around one, two and eight blocks, and around 66, which fill queues of 64.
            counts = [0, 1, 2, 8] + ([66] if s == 16 else [])
            lengths = [length for length in edges(s, n, counts) if length < most]
            if most < 4000:
                lengths += [most - 1, most, most + 1]
            yield group(aes, n, key_bytes, s, 128, sorted(set(lengths)))
            for t in (96, 64, 33, 8):
                rate = (n - s) // 8
                yield group(aes, n, key_bytes, s, t, [0, rate - 1, rate])


def speck_groups():
    n = 32
    for s in range(1, 17):
        most = limit_bytes(s, n)
        lengths = [length for length in edges(s, n, [0, 1, 2, 3, 8, 65]) if length < most]
        if most < 6000:
            lengths += [most, most + 1]
        for t in (32, 24, 13, 8) if s in (10, 11, 16) else (32,):
            yield group(speck, n, 8, s, t, sorted(set(lengths)) if t == 32 else [0, 1, 2, 3, 4])


def document(algorithm, header, groups):
    number = 0
    groups = list(groups)
    for test in (test for g in groups for test in g["tests"]):
        number += 1
        hexed = {field: test[field].hex() for field in ("key", "msg", "tag")}
        test.update({"tcId": number} | hexed)
    return {
        "algorithm": algorithm,
        "header": header,
        "notes": FLAGS,
        "numberOfTests": number,
        "testGroups": groups,
    }


HEADER = [
    "LightMAC (Luykx, Preneel, Tischhauser, Yasuda, FSE 2016).",
    "key = K1 || K2 and keySize is both keys' bits; counterBits is s and tagSize t.",
    "tag = the leading t bits of E_K2(V), zeros behind them up to a whole byte.",
]


def write(name, contents):
    """JSON with one test on each line."""
    text = json.dumps(contents | {"testGroups": None}, indent=1)
    groups = []
    for g in contents["testGroups"]:
        order = ("tcId", "comment", "flags", "key", "msg", "tag", "result")
        tests = [json.dumps({field: test[field] for field in order}) for test in g["tests"]]
        head = json.dumps(g | {"tests": []})[: -len("]}")]
        groups.append("  " + head + "\n   " + ",\n   ".join(tests) + "\n  ]}")
    text = text.replace('"testGroups": null', '"testGroups": [\n' + ",\n".join(groups) + "\n ]")
    assert json.loads(text) == contents
    Path(__file__).with_name(name).write_text(text + "\n")


def vectors():
    write("lightmac_aes.json", document("LIGHTMAC-AES", HEADER, aes_groups()))
    words = ["Speck32/64 with big-endian words in the order in which its paper prints them."]
    write("lightmac_speck.json", document("LIGHTMAC-SPECK32/64", HEADER + words, speck_groups()))


def expand_label(secret, label, context, length):
    """HKDF-Expand-Label (RFC 8446, section 7.1) with SHA-256 and the prefix of RFC 9147, section 5.9."""
    label = b"dtls13" + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + bytes([len(context)]) + context
    out, block, i = b"", b"", 1
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([i]), hashlib.sha256).digest()
        out, i = out + block, i + 1
    return out[:length]


def record():
    """Prints one record of AES-128-CTR + LightMAC. All keys use the aggregation context."""
    secret, ctx = bytes(range(32)), bytes.fromhex("011000")
    number, header, plain = 5, bytes.fromhex("2305"), b"\x17" + b"0123456789"
    key, iv = expand_label(secret, b"key", ctx, 16), expand_label(secret, b"iv", ctx, 12)
    k1, k2 = expand_label(secret, b"lm1", ctx, 16), expand_label(secret, b"lm2", ctx + b"\0", 16)
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    stream = b"".join(aes(key, nonce + j.to_bytes(4, "big")) for j in range(len(plain) // 16 + 1))
    sealed = bytes(a ^ b for a, b in zip(plain, stream))
    message = number.to_bytes(6, "big") + bytes([len(header)]) + header + sealed
    print("M", message.hex())
    print("T", lightmac(aes, k1, k2, message, 16, 128, 128).hex())


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        record()
    else:
        vectors()
