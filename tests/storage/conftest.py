"""Fixtures of the tests of runs."""

import pytest

from tests.conftest import open_library
from tests.storage.checkpoint_support import KERNEL, TARGET, start
from xpsample import (
    sample,
)


@pytest.fixture
def saved(tmp_path):
    library = open_library("numpy", "float64")
    sample(TARGET, KERNEL, start(library), 20, seed=1, checkpoint=tmp_path, progress=False)
    return tmp_path, library
