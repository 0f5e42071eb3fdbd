"""What the tests of checkpoints share."""

import numpy as np

from xpsample import (
    MALA,
    SRMC,
    Exact,
)
from xpsample.core import tree
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.array([[1.0, 0.4], [0.4, 1.5]]))
KERNEL = SRMC(MALA(0.3), 0.5, tilt=Exact())


def start(library, chains=300):
    # 300 chains of 2: a chunk of noise is 256 steps, so that these runs have several blocks.
    return library.array(np.random.default_rng(0).standard_normal((chains, 2)))


def same(library, a, b):
    for (path, left), (_, right) in zip(tree.items(a), tree.items(b), strict=True):
        np.testing.assert_array_equal(library.host(left), library.host(right), err_msg=path)
