"""The look-alike of CuPy, for tests that ask for it."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tests.cupy_lookalike.installed import installed


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    """CuPy's look-alike, imported as `cupy`: two devices, of which the first is current."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("dtypes are promoted by NumPy's rules, and CuPy's are those of NumPy 2")
    with installed() as module:
        yield module
