"""NumPy's cheaper functions give the numbers, shapes and dtypes of array-api-compat, to the last bit."""

import numpy as np
import pytest
from array_api_compat import numpy as compat
from xpsample_numpy import namespace as xp

REALS = np.random.default_rng(0).normal(size=(3, 5, 4))
REALS[0, 0] = np.nan, np.inf, -np.inf, 0.0


@pytest.mark.parametrize("x", [REALS, REALS.astype(np.float32), np.arange(60).reshape(3, 5, 4)])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("clip", {"min": 0.5}),
        ("clip", {"max": 0.5}),
        ("clip", {"min": -0.5, "max": np.inf}),
        ("clip", {"min": np.zeros(4, int)}),
        ("clip", {"max": 7}),
        ("mean", {"axis": -1}),
        ("mean", {"axis": -2, "keepdims": True}),
        ("mean", {"axis": (0, 1)}),
        ("mean", {}),
        ("all", {"axis": -1}),
        ("all", {"axis": (0, 1), "keepdims": True}),
        ("all", {}),
    ],
)
def test_values(name, settings, x):
    with np.errstate(invalid="ignore"):
        found, expected = (getattr(namespace, name)(x, **settings) for namespace in (xp, compat))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, strict=True)
