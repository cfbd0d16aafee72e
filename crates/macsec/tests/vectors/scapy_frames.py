#!/usr/bin/env python3
"""Writes scapy.txt: MACsec frames as scapy makes them (scapy.contrib.macsec over OpenSSL).

IEEE 802.1AE, Annex C, publishes vectors for GCM-AES-128 and GCM-AES-256. These frames cover its
cases with extended packet numbering and with confidentiality offsets, for which we know of no
published vectors.

    pip install scapy cryptography
    python3 scapy_frames.py > scapy.txt
"""

from scapy.contrib.macsec import MACsec, MACsecSA
from scapy.layers.l2 import Ether
from scapy.packet import Raw, raw

KEYS = {
    128: bytes.fromhex("ad7a2bd03eac835a6f620fdcb506b345"),
    256: bytes.fromhex("e3c08a8f06c6e3ad95a70557b23f75483ce33021a9c72b7025666204c69c0b72"),
}
SALT = bytes.fromhex("e630e81a48de86a21c66fa6d")
SSCI = 0x7A30C118
DESTINATION = "d6:09:b1:f0:56:63"
# With and without the SCI in the tag. Without it, the SCI is the source address with port 1 (ES).
CHANNELS = {
    True: ("7a:0d:46:df:99:8d", bytes.fromhex("12153524c0895e81")),
    False: ("f0:76:1e:8d:cd:3d", bytes.fromhex("f0761e8dcd3d0001")),
}


def frame(bits, data_len, encrypt, send_sci, an, pn, extended, offset, case=0):
    source, sci = CHANNELS[send_sci]
    # As in the annex, the data bytes count up, and the last one is the number of the case.
    data = bytes([0x0F + i & 0xFF for i in range(data_len - 2)])
    if case:
        data = data[:-2] + bytes([0, case])
    plain = Ether(dst=DESTINATION, src=source, type=0x0800) / Raw(data)
    options = {"xpn_en": True, "ssci": SSCI, "salt": SALT} if extended else {}
    sa = MACsecSA(sci, an, pn, KEYS[bits], 16, encrypt, send_sci, **options)
    tagged = sa.encap(plain)
    tagged[MACsec].ES = not send_sci
    header_len = 28 if send_sci else 20
    clear = min(header_len + offset, header_len + data_len) if offset else None
    sealed = sa.encrypt(tagged, assoclen=clear)
    suite = f"gcm-aes-{'xpn-' if extended else ''}{bits}"
    what = f"confidentiality, offset {offset}" if encrypt else "integrity"
    print(f"name = {12 + data_len}-octet frame, {what}")
    print(f"suite = {suite}\nkey = {KEYS[bits].hex()}\nsci = {sci.hex()}\npn = {pn:x}")
    if extended:
        print(f"ssci = {SSCI:x}\nsalt = {SALT.hex()}")
    if offset:
        print(f"offset = {offset}")
    print(f"frame = {raw(plain).hex()}\nmacsec = {raw(sealed).hex()}\n")


def main():
    print("# Written by scapy_frames.py: frames of an independent implementation, for cases without")
    print("# published vectors.\n")
    for bits in KEYS:
        for high in (0, 0xB0DF459C):
            pn = high << 32 | 0xB2C28465
            for data_len, encrypt, send_sci, an, case in (
                (42, False, True, 2, 1),
                (48, True, True, 2, 2),
                (48, False, False, 0, 3),
                (42, True, False, 0, 4),
                (47, True, True, 3, 0),
                (1500, True, True, 1, 0),
                (2, True, False, 1, 0),
            ):
                frame(bits, data_len, encrypt, send_sci, an, pn, True, 0, case)
        for offset in (30, 50):
            for data_len in (offset - 1, offset, offset + 1, 47, 48, 600):
                frame(bits, data_len, True, True, 1, 0x1234, False, offset)


main()
