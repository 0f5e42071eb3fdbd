"""Where things are run."""

import numpy as np
import pytest

from xpsample.core.devices import device_dtypes, missing
from xpsample.core.errors import BackendError
from xpsample.core.registry import installed_backends


def test_arrays_are_made_in_the_place():
    pytest.importorskip("array_api_strict")
    for device in device_dtypes(["numpy", "array_api_strict"]):
        array = device.array(np.ones(3))
        assert device.backend.owns(array)
        assert str(array.dtype).endswith(device.dtype)
        assert [d.name for d in device.backend.devices(array)] == [device.name]
        assert "int" in str(device.array(np.arange(3)).dtype)


def test_names_are_kept_in_order_and_once():
    pytest.importorskip("array_api_strict")
    found = [(p.backend.name, p.name, p.dtype) for p in device_dtypes(["numpy", "array_api_strict", "numpy"])]
    assert list(dict.fromkeys(name for name, *_ in found)) == ["numpy", "array_api_strict"]
    assert len(set(found)) == len(found)
    names = {p.backend.name for p in device_dtypes()}
    assert names <= set(installed_backends())
    assert "numpy" in names


def test_what_is_not_there_is_named():
    with pytest.raises(BackendError, match="no backend is registered for 'no_such_library'"):
        device_dtypes(["no_such_library"])
    for name in set(missing()):
        assert ":" in name
