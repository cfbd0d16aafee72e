#!/usr/bin/env python3
"""A group's life and its rekey messages from an implementation of its own (docs/spec/group.md, section
4). Needs the `cryptography` package.

    python3 group_rekey.py        writes group-rekey.json beside it

The tree is a dictionary and members are sets here: what is told to whom is found by looking at all
nodes. Random bytes are ChaCha20's under SEED, as those of the engine's generator in its test.
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

SEED = bytes(range(0x20, 0x40))
SIGNING_SEED = bytes(range(32))
GROUP = bytes(range(0x47, 0x57))
CHAIN_SEED, CHAIN_LEFT, CHAIN_LENGTH = b"\xc5" * 16, 5, 256

NOTHING, UNCHANGED, CHANGED, OWN = range(4)
RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def expand_label(secret, label, context, length):
    """RFC 8446, section 7.1, with RFC 9147's prefix; one block of output is enough."""
    label = b"dtls13" + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + bytes([len(context)]) + context
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()[:length]


def secret_of(key):
    return hmac.new(b"lightseal lkh" + GROUP, key, hashlib.sha256).digest()


def node_bytes(node):
    level, index = node
    return bytes([level]) + index.to_bytes(3, "big")


def kek(node, key, epoch):
    context = node_bytes(node) + epoch.to_bytes(8, "big")
    return expand_label(secret_of(key), b"ls lkh kek", context, 16)


def epoch_key(root, epoch):
    return expand_label(secret_of(root), b"ls lkh root", epoch.to_bytes(8, "big"), 16)


def chain_hash(element):
    return hashlib.sha256(b"lightseal rekey chain\0" + GROUP + element).digest()[:16]


def chain_at(seed, left):
    for _ in range(left):
        seed = chain_hash(seed)
    return seed


class Controller:
    def __init__(self):
        self.stream = Cipher(algorithms.ChaCha20(SEED, bytes(16)), None).encryptor()
        self.signing = Ed25519PrivateKey.from_private_bytes(SIGNING_SEED)
        self.seed, self.left = CHAIN_SEED, CHAIN_LEFT
        self.epoch, self.depth, self.keys, self.members = 0, 1, {}, set()

    def random(self):
        return self.stream.update(bytes(16))

    def below(self, leaves, node):
        level, index = node
        return {leaf for leaf in leaves if leaf >> level == index}

    def rekey(self, leave=(), join=0, refresh=False, activation=0, retention=60, max_bytes=1200):
        """Makes a change; its messages are longer than max_bytes only if that cannot be helped."""
        self.epoch += 1
        leave, stay = set(leave), self.members - set(leave)
        old_depth = self.depth
        while 1 << self.depth < len(stay) + join:
            self.depth += 1
        free = (leaf for leaf in range(1 << self.depth) if leaf not in stay)
        joined = [next(free) for _ in range(join)]
        self.members = stay | set(joined)

        nodes = [(h, i) for h in range(self.depth + 1) for i in range(1 << (self.depth - h))]
        root = (self.depth, 0)
        grown = {(h, 0) for h in range(old_depth + 1, self.depth + 1)}
        touched = {n for n in nodes if self.below(leave, n) or self.below(joined, n)}
        touched |= grown | {root}
        if refresh:
            touched |= {n for n in nodes if n[0] > 0 and self.below(self.members, n)}
        self.stay, self.touched = stay, touched
        # Nodes whose new key may be told under their own old key.
        self.own = {
            n for n in touched if n[0] > 0 and n not in grown and not refresh
            and not self.below(leave, n) and self.below(stay, n)
        }
        self.old, self.fresh = dict(self.keys), {}
        for node in sorted(touched):
            self.keys.pop(node, None)
            if self.below(self.members, node):
                self.fresh[node] = self.keys[node] = self.random()

        self.left -= 1
        element, anchor = chain_at(self.seed, self.left), None
        if self.left == 0:
            self.seed, self.left = self.random(), CHAIN_LENGTH
            anchor = chain_at(self.seed, self.left)
        self.message = lambda leaves, ranged: self.sign(
            leaves, ranged, element, anchor, activation, retention)
        messages = self.messages(max_bytes) if stay else []
        step = {
            "leave": sorted(leave), "join": join, "refresh": refresh,
            "activation": activation, "retention": retention, "max_bytes": max_bytes,
            "epoch": self.epoch, "depth": self.depth, "joined": joined,
            "keys": [{"level": h, "index": i, "key": key.hex()} for (h, i), key in self.fresh.items()],
            "element": element.hex(), "anchor": self.anchor().hex(),
            "messages": [m.hex() for m in messages],
            "epoch_key": epoch_key(self.keys[root], self.epoch).hex(),
            "grants": [{"leaf": leaf, "grant": self.grant(leaf, activation, retention).hex()} for leaf in joined],
        }
        return step, messages

    def anchor(self):
        return chain_at(self.seed, self.left)

    def messages(self, max_bytes):
        everybody = range(1 << self.depth)
        whole = self.message(everybody, False)
        if len(whole) <= max_bytes:
            return [whole]
        # As many audiences as fit: an audience begins at the first leaf of a subtree that is told alike.
        starts = self.audiences((self.depth, 0)) + [1 << self.depth]
        messages, at = [], 0
        while at < len(starts) - 1:
            first = starts[at] if at else 0
            end = at + 1
            part = self.message(range(first, starts[end]), True)
            while end + 1 < len(starts):
                longer = self.message(range(first, starts[end + 1]), True)
                if len(longer) > max_bytes:
                    break
                part, end = longer, end + 1
            messages.append(part)
            at = end
        return messages

    def audiences(self, node):
        level, index = node
        starts = []
        for child in ((level - 1, 2 * index), (level - 1, 2 * index + 1)):
            if self.below(self.stay, child):
                described = child[0] > 0 and child in self.touched
                starts += self.audiences(child) if described else [child[1] << child[0]]
        return starts

    def describe(self, node, leaves, nibbles, wraps):
        """One node and all below it, for those of `leaves` who were members before."""
        level, index = node
        new = self.keys[node]
        codes, below = [], []
        if node in self.own:
            wraps.append(aes_key_wrap(kek(node, self.old[node], self.epoch), new))
        for child in ((level - 1, 2 * index), (level - 1, 2 * index + 1)):
            if not self.below(self.stay & set(leaves), child):
                codes.append(NOTHING)
                continue
            described = level > 1 and child in self.touched
            if described:
                below.append(child)
            if node in self.own:
                codes.append(OWN if described else NOTHING)
            else:
                codes.append(CHANGED if described else UNCHANGED)
                wraps.append(aes_key_wrap(kek(child, self.keys[child], self.epoch), new))
        nibbles.append(codes[0] << 2 | codes[1])
        for child in below:
            self.describe(child, leaves, nibbles, wraps)

    def sign(self, leaves, ranged, element, anchor, activation, retention):
        nibbles, wraps = [], []
        self.describe((self.depth, 0), leaves, nibbles, wraps)
        if len(nibbles) % 2:
            nibbles.append(0)
        shape = bytes(a << 4 | b for a, b in zip(nibbles[::2], nibbles[1::2]))
        flags = (1 if ranged else 0) | (2 if anchor else 0)
        message = bytes([1, 1, GROUP[0], flags]) + self.epoch.to_bytes(8, "big") + element
        message += activation.to_bytes(2, "big") + bytes([retention, self.depth])
        if ranged:
            message += leaves[0].to_bytes(3, "big") + leaves[-1].to_bytes(3, "big")
        message += (anchor or b"") + shape + b"".join(wraps)
        return message + self.signing.sign(b"lightseal group rekey\0" + GROUP + message)

    def path(self, leaf):
        return [self.keys[level, leaf >> level] for level in range(self.depth + 1)]

    def grant(self, leaf, activation, retention):
        head = bytes([1, 3]) + GROUP + self.epoch.to_bytes(8, "big") + activation.to_bytes(2, "big")
        head += bytes([retention]) + leaf.to_bytes(3, "big") + bytes([self.depth]) + self.anchor()
        return head + b"".join(self.path(leaf))


def follow(message, leaf, path, public):
    """What a member makes of a message: its new path, or why there is none."""
    signed, signature = message[:-64], message[-64:]
    public.verify(signature, b"lightseal group rekey\0" + GROUP + signed)
    flags, epoch, depth = message[3], int.from_bytes(message[4:12], "big"), message[31]
    at = 32
    if flags & 1:
        first, last = (int.from_bytes(message[i : i + 3], "big") for i in (32, 35))
        at += 6
        if not first <= leaf <= last:
            return "for other leaves"
    at += 16 if flags & 2 else 0
    nibbles = [half for byte in message[at:-64] for half in (byte >> 4, byte & 15)]
    entries, used, wraps = [], 0, 0

    def walk(level, index):
        nonlocal used, wraps
        codes = (nibbles[used] >> 2, nibbles[used] & 3)
        used += 1
        sides = [side for side in (0, 1) if codes[side] in (UNCHANGED, CHANGED)]
        if leaf >> level == index:
            side = leaf >> (level - 1) & 1
            if not sides:
                entries.append((level, (level, index), wraps))
            else:
                there = wraps + sides.index(side) if side in sides else None
                entries.append((level, (level - 1, leaf >> (level - 1)), there))
        wraps += len(sides) or 1
        for side in (0, 1):
            if codes[side] in (CHANGED, OWN):
                walk(level - 1, 2 * index + side)

    walk(depth, 0)
    table = message[at + (used + 1) // 2 : -64]
    assert len(table) == 24 * wraps
    path = list(path) + [None] * (depth + 1 - len(path))
    new = list(path)
    for level, source, there in reversed(entries):
        if there is None:
            return "excluded"
        key = path[level] if source[0] == level else new[level - 1]
        try:
            new[level] = aes_key_unwrap(kek(source, key, epoch), table[24 * there : 24 * there + 24])
        except InvalidUnwrap:
            return "does not open"
    return new


def life():
    """Steps, each checked from the side of the members."""
    controller = Controller()
    public = controller.signing.public_key()
    paths, left_behind = {}, {}
    changes = [
        dict(join=3),
        dict(join=4, activation=25),
        dict(leave=[1], activation=20, retention=10),
        dict(),
        dict(leave=[0, 4], join=1, activation=1),
        dict(join=12, max_bytes=400),
        dict(leave=[2, 3, 9, 14], join=2, retention=0, max_bytes=450),
        dict(refresh=True, activation=65535, max_bytes=620),
    ]
    for change in changes:
        step, messages = controller.rekey(**change)
        for leaf in step["leave"]:
            left_behind[leaf] = paths.pop(leaf)
        for leaf, path in list(paths.items()):
            told = [new for new in (follow(m, leaf, path, public) for m in messages) if isinstance(new, list)]
            assert told == [controller.path(leaf)]
            paths[leaf] = told[0]
        for leaf in step["leave"]:
            told = [follow(m, leaf, left_behind[leaf], public) for m in messages]
            assert set(told) <= {"excluded", "for other leaves"} and "excluded" in told
        for leaf in step["joined"]:
            paths[leaf] = controller.path(leaf)
        yield step


def main():
    example = dict(node=(3, 5), key=bytes(range(16)), new=bytes(range(16, 32)), epoch=7)
    node, key, new, epoch = example.values()
    out = {
        "group": GROUP.hex(),
        "controller_seed": SIGNING_SEED.hex(),
        "controller": Ed25519PrivateKey.from_private_bytes(SIGNING_SEED).public_key().public_bytes(*RAW).hex(),
        "wrap": {
            "level": node[0], "index": node[1], "key": key.hex(), "epoch": epoch, "new": new.hex(),
            "secret": secret_of(key).hex(), "kek": kek(node, key, epoch).hex(),
            "wrapped": aes_key_wrap(kek(node, key, epoch), new).hex(),
            "epoch_key": epoch_key(key, epoch).hex(),
        },
        "pull": (bytes([1, 2]) + GROUP + epoch.to_bytes(8, "big")).hex(),
        "random_seed": SEED.hex(),
        "chain": {"seed": CHAIN_SEED.hex(), "left": CHAIN_LEFT, "anchor": chain_at(CHAIN_SEED, CHAIN_LEFT).hex()},
        "steps": list(life()),
    }
    path = Path(__file__).with_name("group-rekey.json")
    path.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
