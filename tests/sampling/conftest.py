"""Fixtures of the tests of runs."""

import pytest

from tests.sampling.checkpoint_support import run


@pytest.fixture
def saved(tmp_path):
    run(20, tmp_path)
    return tmp_path
