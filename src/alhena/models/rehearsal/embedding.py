"""Vectors from words by feature hashing: each word adds one to, or takes it from, one dimension."""

import math
import re
import zlib

from alhena.wire.content import Content
from alhena.wire.response import Embedding

DIMENSIONS = 64


def embedding(content: Content) -> Embedding:
    """A vector of length 1 (all zero for a content without words); contents that share words point
    the same way."""
    values = [0.0] * DIMENSIONS
    for part in content.parts:
        for word in re.findall(r"\w+", (part.text or "").lower()):
            hashed = zlib.crc32(word.encode("utf-8"))
            values[hashed % DIMENSIONS] += 1.0 if hashed & 0x8000_0000 else -1.0
    length = math.sqrt(sum(value * value for value in values))
    return Embedding(values=tuple(value / length for value in values) if length else tuple(values))
