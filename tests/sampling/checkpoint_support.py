"""What the tests of checkpoints share."""

import numpy as np

from xpsample import MALA, SRMC, Exact, sample
from xpsample.core import tree
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.array([[1.0, 0.4], [0.4, 1.5]]))
KERNEL = SRMC(MALA(0.3), 0.5, tilt=Exact())


def start(library=None, chains=300):
    # 300 chains of 2: a chunk of noise is 256 steps, so that these runs have several blocks.
    x0 = np.random.default_rng(0).standard_normal((chains, 2))
    return x0 if library is None else library.array(x0)


def run(draws, checkpoint=None, x0=None, kernel=KERNEL, target=TARGET, **settings):
    x0 = start() if x0 is None else x0
    return sample(target, kernel, x0, draws, **{"seed": 1, "checkpoint": checkpoint, "progress": False} | settings)


def same(library, a, b):
    for (path, left), (_, right) in zip(tree.items(a), tree.items(b), strict=True):
        np.testing.assert_array_equal(library.host(left), library.host(right), err_msg=path)
