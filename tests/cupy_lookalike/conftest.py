"""The look-alike of CuPy, for tests that ask for it."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tests.cupy_lookalike.installed import installed


@pytest.fixture(autouse=True)
def numpy_2() -> None:
    """The look-alike promotes dtypes as its NumPy does, and CuPy as NumPy 2 does."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("the CuPy look-alike needs NumPy 2")


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    """CuPy's look-alike, imported as `cupy`: two devices, of which the first is current."""
    with installed() as module:
        yield module
