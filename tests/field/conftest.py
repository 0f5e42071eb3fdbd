"""Fixtures of the tests of faults that users met."""

from collections.abc import Iterator

import pytest

from tests.field.changing_densities import BEFORE, context, set_centre


@pytest.fixture
def as_before() -> Iterator[None]:
    """What densities read, as it was before any change."""
    set_centre(BEFORE)
    token = context.set(BEFORE)
    yield
    context.reset(token)
    set_centre(BEFORE)
