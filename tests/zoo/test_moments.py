"""Known moments: of normals against draws, and the long runs that come with the package."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_moments
from xpsample.zoo.moments import long_run_moments, normal_moments


def test_of_normals():
    mean, sd = np.array([0.0, 3.0, -1.0]), np.array([1.0, 0.5, 2.0])
    draws = mean + sd * np.random.default_rng(0).standard_normal((200_000, 3))
    check_moments(normal_moments(mean, sd**2), draws)


@pytest.mark.parametrize(("name", "dim"), [("brownian-motion", 32), ("german-credit", 51), ("breast-cancer", 31)])
def test_of_long_runs(name, dim):
    moments = long_run_moments(name)
    assert all(part.shape == (dim,) for part in moments)
    assert np.all(moments.variance > 0) and np.all(moments.square_variance > 0)
