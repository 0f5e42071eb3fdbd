"""Random-walk Metropolis."""

from tests.kernels.support import assert_metropolis, density, noise_of, start, walk
from xpsample.kernels import RWM


def test_random_walk_by_hand(library):
    x = start(50)
    noise = noise_of(RWM(0.7), x, 1)
    positions, infos, _ = walk(library, RWM(0.7), x, noise)
    y = x + 0.7 * noise["proposal"][0]
    assert_metropolis(library, infos[0], positions[0], x, y, density(y) - density(x), noise)
