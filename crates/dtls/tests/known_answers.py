#!/usr/bin/env python3
"""The second implementation behind crypto/suites/known_answer.rs, crypto/group.rs
and the vectors of tests/schedule.rs. Needs the `cryptography` package; prints hex."""

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mlkem, padding, rsa, x25519
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

SECRET = bytes(range(32))
NUMBER = 5
HEADER = bytes.fromhex("2305")
PLAIN = b"0123456789\x17"
AGGREGATED = b"\x170123456789"
SAMPLE = bytes(range(16))
CONTEXT = bytes.fromhex("011000")
# The primes of an RSA key of 2048 bits for tests.
RSA_PRIMES = [
    int(number, 16)
    for number in (
        "d8b20550a35f6362b3fb4779527387e58749561c715c805deddb7522ffbb67cdfea064e8d886216b"
        "8f29f356e08ade74277a09d23b8e4f3d572f10bcc119a2670c8c35ff7741204ff4efe30c80d2f26c"
        "6aa4906dfe9223a5b1c25bc0a8feb24dfa9042461e53b5df2581f9bbff82239d71e65e620f1d599d"
        "3c19b663345bc6b5",
        "cad0ba5189ed50361e6630c6e51cdef9efc36105b2274bcb4d91ebc0d281ca1aa33b1ebe8dfc5050"
        "62fb4684fe8c9e4745128e571d624ff43b386405280ff085b7b5780226adce77879e8f05d502a122"
        "e1536eef1f8868ab2b52d4ddfb5dc0447222cdf90251582bded8046b356257175b77b7d0dee0f8d7"
        "db2677c2c04ebba1",
    )
]


def extract(salt, ikm, hash=hashlib.sha256):
    return hmac.new(salt, ikm, hash).digest()


def expand_label(secret, label, context, length, hash=hashlib.sha256):
    label = b"dtls13" + label
    info = struct.pack(">H", length) + bytes([len(label)]) + label
    info += bytes([len(context)]) + context
    out, block, i = b"", b"", 1
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([i]), hash).digest()
        out, i = out + block, i + 1
    return out[:length]


def aes(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def chacha(key, nonce, length):
    return Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(length))


def xor(a, b):
    return bytes(p ^ q for p, q in zip(a, b))


def keys(key_len, context):
    """key, nonce of record NUMBER, record number key."""
    key, iv, sn = (
        expand_label(SECRET, label, context, length)
        for label, length in ((b"key", key_len), (b"iv", 12), (b"sn", key_len))
    )
    return key, xor(iv, bytes(4) + struct.pack(">Q", NUMBER)), sn


def ctr(key, nonce, data):
    blocks = range((len(data) + 15) // 16)
    return xor(data, b"".join(aes(key, nonce + struct.pack(">I", j)) for j in blocks))


def lightmac_state(key, message):
    state, counter = bytes(16), 1
    while len(message) >= 14:
        state = xor(state, aes(key, struct.pack(">H", counter) + message[:14]))
        message, counter = message[14:], counter + 1
    return xor(state, (message + b"\x80").ljust(16, b"\0"))


def suites():
    for name, length, aead in (
        ("AES_128_GCM", 16, AESGCM),
        ("CHACHA20_POLY1305", 32, ChaCha20Poly1305),
        ("AES_128_CCM", 16, lambda key: AESCCM(key, 16)),
        ("AES_128_CCM_8", 16, lambda key: AESCCM(key, 8)),
    ):
        key, nonce, sn = keys(length, b"")
        sealed = aead(key).encrypt(nonce, PLAIN, HEADER)
        mask = chacha(sn, SAMPLE, 2) if length == 32 else aes(sn, SAMPLE)[:2]
        print(name, sealed.hex(), mask.hex())
    key, nonce, sn = keys(16, CONTEXT)
    sealed = AESCCM(key, 16).encrypt(nonce, AGGREGATED, HEADER)
    content, tag = sealed[:-16], sealed[-16:]
    blocks = [aes(expand_label(SECRET, b"agg x", CONTEXT + bytes([i]), 16), tag) for i in (1, 2, 255, 254, 253)]
    print("AES_128_CCM aggregated", content.hex(), tag.hex(), *[b.hex() for b in blocks], aes(sn, SAMPLE)[:2].hex())
    key, iv, sn = (expand_label(SECRET, b"dangerous " + l, CONTEXT, n) for l, n in ((b"key", 16), (b"iv", 12), (b"sn", 16)))
    sealed = AESGCM(key).encrypt(xor(iv, bytes(4) + struct.pack(">Q", NUMBER)), AGGREGATED, HEADER)
    content, tag = sealed[:-16], sealed[-16:]
    blocks = [aes(expand_label(SECRET, b"dangerous x", CONTEXT + bytes([i]), 16), tag) for i in (1, 2, 255, 254, 253)]
    print("DANGEROUS_GCM aggregated", content.hex(), tag.hex(), *[b.hex() for b in blocks], aes(sn, SAMPLE)[:2].hex())
    for context, content in ((bytes(3), PLAIN), (CONTEXT, AGGREGATED)):
        key, nonce, sn = keys(16, context)
        content = ctr(key, nonce, content)
        message = struct.pack(">Q", NUMBER)[2:] + bytes([len(HEADER)]) + HEADER + content
        state = lightmac_state(expand_label(SECRET, b"lm1", context, 16), message)
        blocks = [aes(expand_label(SECRET, b"lm2", context + bytes([i]), 16), state) for i in (0, 1, 2, 255, 254, 253)]
        print("AES_128_CTR_LIGHTMAC", context.hex(), content.hex(), *[b.hex() for b in blocks], aes(sn, SAMPLE)[:2].hex())

    for context, content in ((b"", PLAIN), (CONTEXT, AGGREGATED)):
        key, iv = (expand_label(SECRET, label, context, 32) for label in (b"key", b"iv"))
        nonce = xor(iv, bytes(24) + struct.pack(">Q", NUMBER))
        tag = hmac.new(key, nonce + HEADER + content, hashlib.sha256).digest()
        extended = [(bytes([i]), expand_label(SECRET, b"agg x", context + bytes([i]), 32)) for i in (1, 2, 255, 254, 253)]
        blocks = [hmac.new(key, i + tag[:16], hashlib.sha256).digest()[:16] for i, key in extended]
        print("SHA256_SHA256", context.hex(), content.hex(), tag.hex(), *[b.hex() for b in blocks])


def suites384():
    """AES-256-GCM with SHA-384, and the hash itself."""
    secret = bytes(range(48))
    key, iv, sn = (
        expand_label(secret, label, b"", length, hashlib.sha384)
        for label, length in ((b"key", 32), (b"iv", 12), (b"sn", 32))
    )
    nonce = xor(iv, bytes(4) + struct.pack(">Q", NUMBER))
    sealed = AESGCM(key).encrypt(nonce, PLAIN, HEADER)
    print("AES_256_GCM", sealed.hex(), aes(sn, SAMPLE)[:2].hex())
    for name, hash in (("SHA_256", hashlib.sha256), ("SHA_384", hashlib.sha384)):
        key, long = b"\x0b" * 20, b"\xaa" * 131
        prk, okm, block = extract(key, b"abc", hash), b"", b""
        for i in range(1, 43):
            block = hmac.new(prk, block + b"abc" + bytes([i]), hash).digest()
            okm += block
        macs = [hmac.new(k, b"abc", hash).hexdigest() for k in (key, long)]
        print(name, hash(b"abc").hexdigest(), *macs, okm[:42].hex())


def groups():
    # ChaCha20Rng seeded with 32 bytes of 7: two private keys.
    stream = chacha(bytes([7] * 32), bytes(16), 64)
    one, other = (x25519.X25519PrivateKey.from_private_bytes(k) for k in (stream[:32], stream[32:]))
    raw = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    print("x25519", *[k.public_key().public_bytes(*raw).hex() for k in (one, other)], one.exchange(other.public_key()).hex())
    point = (serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    for name, curve, length in (("secp256r1", ec.SECP256R1(), 32), ("secp384r1", ec.SECP384R1(), 48)):
        stream = chacha(bytes([7] * 32), bytes(16), 2 * length)
        scalars = (int.from_bytes(k, "big") for k in (stream[:length], stream[length:]))
        one, other = (ec.derive_private_key(scalar, curve) for scalar in scalars)
        print(name, *[k.public_key().public_bytes(*point).hex() for k in (one, other)], one.exchange(ec.ECDH(), other.public_key()).hex())
    # An ML-KEM seed and an X25519 scalar.
    stream = chacha(bytes([7] * 32), bytes(16), 96)
    share = mlkem.MLKEM768PrivateKey.from_seed_bytes(stream[:64]).public_key().public_bytes_raw()
    print("MLKEM768", hashlib.sha256(share).hexdigest())
    share += x25519.X25519PrivateKey.from_private_bytes(stream[64:]).public_key().public_bytes(*raw)
    print("X25519MLKEM768", hashlib.sha256(share).hexdigest())


def signatures():
    # The private key in PKCS#8, the public key, and the signature of "Lightseal".
    message = b"Lightseal"
    der = (serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    point = (serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    for name, curve, length, hash in (
        ("ECDSA_P256_SHA256", ec.SECP256R1(), 32, hashes.SHA256()),
        ("ECDSA_P384_SHA384", ec.SECP384R1(), 48, hashes.SHA384()),
    ):
        key = ec.derive_private_key(int.from_bytes(bytes(range(1, 1 + length)), "big"), curve)
        signature = key.sign(message, ec.ECDSA(hash, deterministic_signing=True))
        print(name, key.private_bytes(*der).hex(), key.public_key().public_bytes(*point).hex(), signature.hex())
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
    print("ED25519", key.private_bytes(*der).hex(), key.public_key().public_bytes_raw().hex(), key.sign(message).hex())
    p, q = RSA_PRIMES
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(65537, p * q)
    key = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key()
    pkcs1 = (serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
    print("RSA", key.private_bytes(*der).hex(), key.public_key().public_bytes(*pkcs1).hex())
    for hash in (hashes.SHA256(), hashes.SHA384(), hashes.SHA512()):
        # The salt, and with it the signature, differs from run to run.
        pss = padding.PSS(padding.MGF1(hash), hash.digest_size)
        print("RSA_PSS_" + hash.name, key.sign(message, pss, hash).hex())
        print("RSA_PKCS1_" + hash.name, key.sign(message, padding.PKCS1v15(), hash).hex())


def schedule(function, suffix):
    length = function().digest_size
    empty = function(b"").digest()
    hashes = [bytes([i] * length) for i in (1, 2, 3)]

    def expand(secret, label, context, length):
        return expand_label(secret, label, context, length, function)

    def chain(psk, shared):
        early = extract(bytes(length), psk, function)
        binders = [expand(expand(early, label, empty, length), b"finished", b"", length) for label in (b"ext binder", b"res binder", b"imp binder")]
        early_exporter = expand(early, b"e exp master", hashes[0], length)
        early_exporter = expand(early_exporter, b"EXPORTER-x", empty, length)
        handshake = extract(expand(early, b"derived", empty, length), shared, function)
        master = extract(expand(handshake, b"derived", empty, length), bytes(length), function)
        client = expand(master, b"c ap traffic", hashes[1], length)
        exporter = expand(master, b"exp master", hashes[1], length)
        exporter = expand(exporter, b"EXPORTER-x", empty, length)
        return [
            *[hmac.new(key, hashes[0], function).digest() for key in binders],
            expand(handshake, b"c hs traffic", hashes[0], length),
            expand(handshake, b"s hs traffic", hashes[0], length),
            client,
            expand(master, b"s ap traffic", hashes[1], length),
            expand(client, b"traffic upd", b"", length),
            hmac.new(expand(client, b"finished", b"", length), hashes[2], function).digest(),
            expand(exporter, b"exporter", function(b"context").digest(), 20),
            expand(expand(master, b"res master", hashes[2], length), b"resumption", b"\x01\x02", length),
            expand(early, b"c e traffic", hashes[0], length),
            expand(early_exporter, b"exporter", function(b"context").digest(), 20),
        ]

    for name, psk, shared in (("psk_ke", b"secret", bytes(length)), ("ecdhe", bytes(length), bytes([9] * 32))):
        for value in chain(psk, shared):
            print(name + suffix, value.hex())


def importer(function, kdf):
    """RFC 9258: the ImportedIdentity for DTLS 1.3, the imported key, and the binder over a hash whose
    bytes are 1."""
    length = function().digest_size
    for external, context, key in (
        (b"sensor 7", b"", bytes([0x2a] * 32)),
        (b"sensor 7", b"client: sensor 7, server: hub", bytes(range(16))),
    ):
        identity = b"".join(struct.pack(">H", len(part)) + part for part in (external, context))
        identity += struct.pack(">HH", 0xFEFC, kdf)
        # The hash of the external PSK is SHA-256, whatever the target is.
        imported = expand_label(extract(b"", key), b"derived psk", hashlib.sha256(identity).digest(), length)
        early = extract(bytes(length), imported, function)
        binder = expand_label(early, b"imp binder", function(b"").digest(), length, function)
        binder = expand_label(binder, b"finished", b"", length, function)
        print("imported", identity.hex(), imported.hex(), hmac.new(binder, bytes([1] * length), function).hexdigest())


def prf12(secret, label, seed, length, hash=hashlib.sha256):
    seed, a, out = label + seed, label + seed, b""
    while len(out) < length:
        a = hmac.new(secret, a, hash).digest()
        out += hmac.new(secret, a + seed, hash).digest()
    return out[:length]


def suites12():
    number = struct.pack(">HHI", 1, 0, 5)
    plain = b"0123456789"
    header = number + bytes.fromhex("17fefd") + struct.pack(">H", len(plain))
    key, iv = bytes(range(32)), bytes(range(0x20, 0x2c))
    for name, key_len, nonce, aead in (
        ("AES_128_GCM", 16, iv[:4] + number, AESGCM),
        ("CHACHA20_POLY1305", 32, xor(iv, bytes(4) + number), ChaCha20Poly1305),
        ("AES_128_CCM", 16, iv[:4] + number, lambda key: AESCCM(key, 16)),
        ("AES_128_CCM_8", 16, iv[:4] + number, lambda key: AESCCM(key, 8)),
        ("AES_256_GCM", 32, iv[:4] + number, AESGCM),
    ):
        print("1.2", name, aead(key[:key_len]).encrypt(nonce, plain, header).hex())


def schedule12():
    client, server, session = (bytes([i] * 32) for i in (1, 2, 3))

    def vector(data):
        return struct.pack(">H", len(data)) + data

    def outputs(premaster):
        yield prf12(premaster, b"master secret", client + server, 48)
        master = prf12(premaster, b"extended master secret", session, 48)
        yield master
        yield prf12(master, b"client finished", session, 12)
        yield prf12(master, b"server finished", session, 12)
        for seed in (b"", vector(b""), vector(b"context")):
            yield prf12(master, b"EXPORTER-x", client + server + seed, 70)
        for aead, key_len, iv_len in ((AESGCM, 16, 4), (ChaCha20Poly1305, 32, 12)):
            block = prf12(master, b"key expansion", server + client, 2 * (key_len + iv_len))
            keys, ivs = block[: 2 * key_len], block[2 * key_len :]
            for i in (0, 1):
                key, iv = keys[i * key_len :][:key_len], ivs[i * iv_len :][:iv_len]
                yield aead(key).encrypt(iv.ljust(12, b"\0"), b"x", b"")

    for name, other in (("psk", bytes(6)), ("ecdhe_psk", bytes([9] * 32))):
        for value in outputs(vector(other) + vector(b"secret")):
            print("1.2", name, value.hex())
    # Lengths around the one from which HMAC hashes its key.
    for length in (0, 30, 31, 100):
        master = next(outputs(vector(bytes(length)) + vector(bytes([7] * length))))
        print("1.2 psk of", length, master.hex())
    for length in (26, 27):
        master = next(outputs(vector(bytes([9] * 32)) + vector(bytes([7] * length))))
        print("1.2 ecdhe_psk of", length, master.hex())
    premaster = vector(bytes(6)) + vector(b"secret")
    master = prf12(premaster, b"extended master secret", bytes([3] * 48), 48, hashlib.sha384)
    finished = prf12(master, b"client finished", bytes([3] * 48), 12, hashlib.sha384)
    print("1.2 sha384", master.hex(), finished.hex())


suites()
suites384()
groups()
signatures()
schedule(hashlib.sha256, "")
schedule(hashlib.sha384, "_sha384")
importer(hashlib.sha256, 1)
importer(hashlib.sha384, 2)
suites12()
schedule12()
