"""Where things are run."""

import numpy as np
import pytest

from xpsample.backend import installed_backends
from xpsample.errors import BackendError
from xpsample.places import Place, missing, places, widest


def test_arrays_are_made_in_the_place():
    for place in places(["numpy", "array_api_strict"]):
        array = place.array(np.ones(3))
        assert place.backend.owns(array)
        assert str(array.dtype).endswith(place.dtype)
        assert [d.name for d in place.backend.devices(array)] == [place.device]
        assert "int" in str(place.array(np.arange(3)).dtype)


def test_names_are_kept_in_order_and_once():
    assert [p.backend.name for p in widest(places(["numpy", "array_api_strict", "numpy"]))][:2] == [
        "numpy",
        "array_api_strict",
    ]
    found = {p.backend.name for p in places()}
    assert found <= set(installed_backends())
    assert "numpy" in found


def test_the_widest_dtype_of_each_kind_of_device():
    backend = places(["numpy"])[0].backend
    every = [
        Place(backend, device, None, dtype)
        for device in ("cpu", "cuda:0", "cuda:1")
        for dtype in ("float32", "float64")
    ]
    assert [(p.device, p.dtype) for p in widest(every)] == [("cpu", "float64"), ("cuda:0", "float64")]
    assert [p.dtype for p in widest(every[:1])] == ["float32"]


def test_what_is_not_there_is_named():
    with pytest.raises(BackendError, match="no backend is registered for 'no_such_library'"):
        places(["no_such_library"])
    for name in set(missing()):
        assert ":" in name
