"""The names of the look-alike beside CuPy's, where CuPy is installed, with a GPU or without."""

import importlib.util
import inspect
import json
import subprocess
import sys
from operator import attrgetter
from types import ModuleType

import pytest

PLACES = "ndarray linalg fft random random.Generator cuda cuda.Device cuda.Stream cuda.runtime"
SCRIPT = """
import json, sys
from operator import attrgetter
import cupy
print(json.dumps({place: dir(attrgetter(place)(cupy)) for place in sys.argv[1:]} | {"": dir(cupy)}))
"""


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="cupy is not installed")
def test_every_name_of_the_look_alike_is_cupys(cupy):
    """CuPy says its own names in a child."""
    child = subprocess.run([sys.executable, "-c", SCRIPT, *PLACES.split()], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    invented = []
    for place, theirs in json.loads(child.stdout).items():
        for name, value in vars(attrgetter(place)(cupy) if place else cupy).items():
            home = inspect.getmodule(value)
            imported = isinstance(value, ModuleType) or (home and not home.__name__.startswith("cupy"))
            if not name.startswith("_") and not imported and name not in theirs:
                invented.append(f"{place}.{name}")
    assert not invented
