"""Block ciphers from their publications, written to be readable and neither fast nor
constant in time: AES (FIPS 197) and Speck32/64 (Beaulieu et al., "The Simon and Speck Families of
Lightweight Block Ciphers", 2013). Each takes and returns bytes."""

from functools import cache


@cache
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


@cache
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
    keys = aes_round_keys(bytes(key))
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


def rotate(word, left):
    return (word << left % 16 | word >> -left % 16) & 0xFFFF


def speck_round(x, y, key):
    x = (rotate(x, -7) + y & 0xFFFF) ^ key
    return x, rotate(y, 2) ^ x


def speck(key, block):
    """Speck32/64. Words are big-endian and in the order in which the paper prints them: the key
    is l2 l1 l0 k0, and the block is x y."""
    *l, k = (int.from_bytes(key[i : i + 2], "big") for i in range(0, 8, 2))
    x, y = int.from_bytes(block[:2], "big"), int.from_bytes(block[2:], "big")
    for i in range(22):
        x, y = speck_round(x, y, k)
        # The key schedule is the round function with the round number as key.
        new, k = speck_round(l.pop(), k, i)
        l.insert(0, new)
    return x.to_bytes(2, "big") + y.to_bytes(2, "big")


PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
# FIPS 197, C.1 to C.3
assert aes(bytes(range(16)), PLAIN).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
assert aes(bytes(range(24)), PLAIN).hex() == "dda97ca4864cdfe06eaf70a0ec0d7191"
assert aes(bytes(range(32)), PLAIN).hex() == "8ea2b7ca516745bfeafc49904b496089"
# The Speck paper, appendix C
assert speck(bytes.fromhex("1918111009080100"), bytes.fromhex("6574694c")).hex() == "a86842f2"
