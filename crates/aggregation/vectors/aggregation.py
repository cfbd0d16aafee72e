#!/usr/bin/env python3
"""Vectors of Agg(n), R2D2(8, o) and the sliding window from a second implementation. It computes one bit after the other, as
the specification defines it (docs/spec/mac-aggregation.md), and shares no code with the Rust crate.

    python3 aggregation.py        writes aggregation.json beside it

The pseudorandom function of the vectors is F_i(m) = the first 16 bytes of SHA-256("vector" || m || i),
with m in 8 bytes and i in one. A scheme uses nothing but its outputs.
"""

import hashlib
import json
from pathlib import Path

RECORDS = 80
CLOSING_BLOCK = 255
SEED = bytes(range(32))


def f(m, i):
    return hashlib.sha256(b"vector" + m.to_bytes(8, "big") + bytes([i])).digest()[:16]


def bits(data):
    return [byte >> (7 - i) & 1 for byte in data for i in range(8)]


def octets(bit_list):
    number = int("".join(map(str, bit_list)), 2)
    return number.to_bytes(len(bit_list) // 8, "big")


def xor(blocks):
    total = 0
    for block in blocks:
        total ^= int.from_bytes(block, "big")
    return total.to_bytes(16, "big")


def golomb(length):
    """Rulers of order 8 and this length, in the order of their marks."""

    def extend(marks, distances):
        if len(marks) == 8:
            if marks[-1] == length:
                yield marks
            return
        for mark in range(marks[-1] + 1, length + 1):
            new = {mark - other for other in marks}
            if not new & distances:
                yield from extend(marks + [mark], distances | new)

    return extend([0], set())


def rulers():
    return [ruler for length in range(34, 38) for ruler in golomb(length)][:64]


def drawn(seed, count):
    left, number, chosen = list(range(64)), int.from_bytes(seed, "big"), []
    for _ in range(count):
        number, place = divmod(number, len(left))
        chosen.append(left.pop(place))
    return chosen


def agg(n):
    tags = []
    for i in range(RECORDS):
        last = i % n == n - 1
        tags.append(xor(f(m, 0) for m in range(i - n + 1, i + 1)) if last else b"")
    return tags


def r2d2(t, sets):
    long = [bits(f(m, 0) + f(m, 1) + f(m, 2))[: 8 * t] for m in range(RECORDS)]
    tags = []
    for i in range(RECORDS):
        tag = []
        for j in range(t):
            terms = (long[i - d][k * t + j] for k, d in enumerate(sets[j]) if d <= i)
            tag.append(sum(terms) % 2)
        tags.append(octets(tag))
    return tags


def closing(first, count):
    tag = xor(f(m, CLOSING_BLOCK) for m in range(first, first + count))
    return {"first": first, "count": count, "tag": tag.hex()}


def delay(sets):
    """The number of later records after which at least 128 bits cover a record."""
    level = 0
    for d in range(38):
        level += sum(d in ruler for ruler in sets)
        if level >= 128:
            return d
    raise ValueError("too few rulers")


def main():
    every = rulers()
    groups = []
    for n in range(2, 17):
        # The sender falls silent after the last record, so the current set's records are open.
        open_records = RECORDS % n
        last = closing(RECORDS - open_records, open_records) if open_records else None
        tags = [tag.hex() for tag in agg(n)]
        groups.append({"scheme": f"agg:{n}", "order": None, "tags": tags, "closing": last})
    for o in (50, 100, 150, 200):
        t = -(-16 * (100 + o) // 100)
        for seed in (None, SEED):
            places = drawn(seed, t) if seed else list(range(t))
            sets = [every[place] for place in places]
            open_records = delay(sets)
            groups.append({
                "scheme": f"r2d2:{o}",
                "order": seed.hex() if seed else None,
                "rulers": places,
                "tags": [tag.hex() for tag in r2d2(t, sets)],
                "closing": closing(RECORDS - open_records, open_records),
            })
    for o in (50, 100, 150, 200):
        t = -(-16 * (100 + o) // 100)
        sets = [list(range(8))] * t
        open_records = delay(sets)
        groups.append({
            "scheme": f"sliding:{o}",
            "order": None,
            "tags": [tag.hex() for tag in r2d2(t, sets)],
            "closing": closing(RECORDS - open_records, open_records),
        })
    out = {
        "function": "F_i(m) = SHA-256('vector' || m (8 bytes) || i (1 byte))[..16]",
        "groups": groups,
    }
    Path(__file__).with_name("aggregation.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
