"""Files as a bad disk gives them back."""

from collections.abc import Iterator

import numpy as np


def damages(content: bytes) -> Iterator[bytes]:
    """Bytes with one bit changed, at 40 places and in the last 100 bytes; cut short at ten; and others."""
    rng = np.random.default_rng(0)
    places = [*rng.integers(0, len(content), 40), *rng.integers(max(0, len(content) - 100), len(content), 20)]
    for place in map(int, places):
        yield content[:place] + bytes([content[place] ^ (1 << rng.integers(8))]) + content[place + 1 :]
    yield from (content[:length] for length in np.linspace(0, len(content) - 1, 10).astype(int))
    yield b"[]" + content
    yield b"null"


def every_damage(content: bytes) -> Iterator[bytes]:
    """Bytes cut short at every length; and with one bit of every byte changed."""
    rng = np.random.default_rng(0)
    yield from (content[:length] for length in range(len(content)))
    for place, byte in enumerate(content):
        yield content[:place] + bytes([byte ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]
