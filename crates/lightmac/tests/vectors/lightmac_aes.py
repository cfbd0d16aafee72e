#!/usr/bin/env python3
"""AES-LightMAC vectors from an implementation of its own: bit strings as in the
paper's Algorithm 1, AES from FIPS 197, nothing shared with the Rust crate.

    python3 lightmac_aes.py > lightmac_aes.json     writes the vectors
    python3 lightmac_aes.py record                  prints the record construction's vector
"""

import hashlib
import hmac
import json
import sys


def gf_mul(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def make_sbox():
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if gf_mul(x, y) == 1), 0)
        out = 0x63
        for turn in range(5):
            out ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
        box.append(out)
    return box


SBOX = make_sbox()


def aes_round_keys(key):
    words = [list(key[i : i + 4]) for i in range(0, len(key), 4)]
    nk = len(words)
    rcon = 1
    for i in range(nk, 4 * (nk + 7)):
        word = list(words[-1])
        if i % nk == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= rcon
            rcon = gf_mul(rcon, 2)
        elif nk > 6 and i % nk == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(words[i - nk], word)])
    flat = [b for word in words for b in word]
    return [flat[i : i + 16] for i in range(0, len(flat), 16)]


def aes(key, block):
    keys = aes_round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number, round_key in enumerate(keys[1:], 1):
        state = [SBOX[b] for b in state]
        state = [state[(i + 4 * (i % 4)) % 16] for i in range(16)]
        if number < len(keys) - 1:
            mixed = []
            for c in range(0, 16, 4):
                col = state[c : c + 4]
                for r in range(4):
                    mixed.append(
                        gf_mul(col[r], 2)
                        ^ gf_mul(col[(r + 1) % 4], 3)
                        ^ col[(r + 2) % 4]
                        ^ col[(r + 3) % 4]
                    )
            state = mixed
        state = [a ^ b for a, b in zip(state, round_key)]
    return bytes(state)


assert aes(bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")) == bytes.fromhex(
    "69c4e0d86a7b0430d8cdb78070b4c55a"
)  # FIPS 197, C.1
assert aes(bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")) == bytes.fromhex(
    "8ea2b7ca516745bfeafc49904b496089"
)  # FIPS 197, C.3


def lightmac(k1, k2, message, s, t, n=128):
    """The tag as bytes; a last partial byte is filled with zero bits."""
    bits = "".join(f"{b:08b}" for b in message)
    if len(bits) > 2**s * (n - s):
        raise ValueError("too long")
    v, i = 0, 1
    while len(bits) >= n - s:
        block = f"{i % 2**s:0{s}b}" + bits[: n - s]
        v ^= int.from_bytes(aes(k1, int(block, 2).to_bytes(n // 8, "big")), "big")
        bits, i = bits[n - s :], i + 1
    v ^= int((bits + "1").ljust(n, "0"), 2)
    tag = f"{int.from_bytes(aes(k2, v.to_bytes(n // 8, 'big')), 'big'):0{n}b}"[:t]
    return int(tag.ljust((t + 7) // 8 * 8, "0"), 2).to_bytes((t + 7) // 8, "big")


def pattern(label, length):
    """Reproducible bytes with no structure."""
    out, i = b"", 0
    while len(out) < length:
        out += hashlib.sha256(f"{label}/{i}".encode()).digest()
        i += 1
    return out[:length]


def group(key_bytes, s, t, lengths):
    tests = []

    def refuse(comment, key, message, tag):
        assert lightmac(key[:key_bytes], key[key_bytes:], message, s, t) != tag
        tests.append((comment, key, message, tag, "invalid"))

    for length in lengths:
        label = f"lightmac {key_bytes} {s} {t} {length}"
        key, message = pattern(label + " key", 2 * key_bytes), pattern(label + " msg", length)
        tag = lightmac(key[:key_bytes], key[key_bytes:], message, s, t)
        tests.append(("", key, message, tag, "valid"))
        if length == lengths[-1]:
            for bit in (0, t - 1):
                wrong = bytearray(tag)
                wrong[bit // 8] ^= 0x80 >> bit % 8
                refuse(f"bit {bit} of the tag flipped", key, message, bytes(wrong))
            refuse("another message", key, bytes([message[0] ^ 1]) + message[1:], tag)
            refuse("padding appended", key, message + b"\x80", tag)
            refuse("keys exchanged", key[key_bytes:] + key[:key_bytes], message, tag)
    return {"type": "MacTest", "keySize": 16 * key_bytes, "counterSize": s, "tagSize": t, "tests": tests}


def vectors():
    groups = [
        group(16, 16, 128, [0, 1, 13, 14, 15, 28, 111, 112, 113, 255, 1200]),
        group(16, 8, 128, [0, 14, 15, 16, 120, 3825, 3839]),
        group(16, 32, 64, [0, 11, 12, 13, 96, 500]),
        group(16, 40, 96, [10, 11, 12, 300]),
        group(16, 64, 128, [7, 8, 9, 64, 1000]),
        group(16, 12, 100, [0, 14, 15, 29, 30, 200]),
        group(16, 1, 9, [0, 15, 16, 30]),
        group(32, 16, 128, [0, 14, 100, 700]),
        group(24, 24, 33, [0, 13, 40]),
    ]
    number = 0
    for g in groups:
        listed = []
        for comment, key, message, tag, result in g["tests"]:
            number += 1
            listed.append(
                {
                    "tcId": number,
                    "comment": comment,
                    "key": bytes(key).hex(),
                    "msg": bytes(message).hex(),
                    "tag": bytes(tag).hex(),
                    "result": result,
                }
            )
        g["tests"] = listed
    return {
        "algorithm": "LIGHTMAC-AES",
        "notes": "key = K1 || K2; counterSize s and tagSize t in bits; tag = leading t bits",
        "numberOfTests": number,
        "testGroups": groups,
    }


def expand_label(secret, label, context, length):
    """HKDF-Expand-Label of RFC 8446, 7.1, with RFC 9147's prefix (5.9); SHA-256."""
    label = b"dtls13" + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + bytes([len(context)]) + context
    out, block, i = b"", b"", 1
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([i]), hashlib.sha256).digest()
        out, i = out + block, i + 1
    return out[:length]


def record():
    """One record of AES-128-CTR + LightMAC. Every key takes the aggregation context."""
    secret, ctx = bytes(range(32)), bytes.fromhex("011000")
    number, header, plain = 5, bytes.fromhex("2305"), b"\x17" + b"0123456789"
    key, iv = expand_label(secret, b"key", ctx, 16), expand_label(secret, b"iv", ctx, 12)
    k1, k2 = expand_label(secret, b"lm1", ctx, 16), expand_label(secret, b"lm2", ctx + b"\0", 16)
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    stream = b"".join(aes(key, nonce + j.to_bytes(4, "big")) for j in range(len(plain) // 16 + 1))
    sealed = bytes(a ^ b for a, b in zip(plain, stream))
    message = number.to_bytes(6, "big") + bytes([len(header)]) + header + sealed
    print("M", message.hex())
    print("T", lightmac(k1, k2, message, 16, 128).hex())


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        record()
    else:
        json.dump(vectors(), sys.stdout, indent=1)
        print()
