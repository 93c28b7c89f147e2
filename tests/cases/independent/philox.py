# SPDX-License-Identifier: BSD-3-Clause
"""Tessera's random numbers in plain Python: Philox4x32-10 (Salmon et al. 2011) under keys made of a
seed and names."""

MASK = (1 << 64) - 1


def name_hash(text):
    """FNV-1a."""
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) & MASK
    return value


def stream_key(seed, name):
    z = (seed * 0x9E3779B97F4A7C15 & MASK) ^ name
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def philox(key, counter, step):
    """Four words of 32 bits."""
    c = [counter & 0xFFFFFFFF, counter >> 32, step & 0xFFFFFFFF, step >> 32]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c
