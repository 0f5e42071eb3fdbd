"""The look-alike beside CuPy, where CuPy is installed, with a GPU or without."""

import importlib.util
import inspect
import json
import subprocess
import sys
import textwrap
from types import ModuleType

import pytest

SCRIPT = """
    import inspect, json
    import cupy

    def names(module):
        found = {}
        for name in dir(module):
            value = getattr(module, name)
            try:
                found[name] = [p.name for p in inspect.signature(value).parameters.values()]
            except (TypeError, ValueError):
                found[name] = None
        return found

    def refuses(call):
        try:
            call()
        except TypeError:
            return True
        return False

    modules = {"": cupy, "linalg": cupy.linalg, "fft": cupy.fft, "random": cupy.random, "cuda": cupy.cuda}
    modules |= {"ndarray": cupy.ndarray, "Device": cupy.cuda.Device, "Stream": cupy.cuda.Stream}
    modules |= {"runtime": cupy.cuda.runtime, "Generator": cupy.random.Generator}
    print(json.dumps({
        "names": {name: names(module) for name, module in modules.items()},
        "array hash": cupy.ndarray.__hash__ is None,
        "device hash": refuses(lambda: hash(cupy.cuda.Device(0))),
        "index": hasattr(cupy.ndarray, "__index__"),
        "size": list(inspect.signature(cupy.random.Philox4x3210).parameters),
    }))
"""


@pytest.fixture(scope="module")
def real():
    """What the CuPy that is installed says of itself, asked in a child."""
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("cupy is not installed")
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def public(module):
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def test_every_name_of_the_look_alike_is_cupys(real, cupy):
    places = {"": cupy, "linalg": cupy.linalg, "fft": cupy.fft, "random": cupy.random, "cuda": cupy.cuda}
    places |= {"ndarray": cupy.ndarray, "Device": cupy.cuda.Device, "Stream": cupy.cuda.Stream}
    places |= {"runtime": cupy.cuda.runtime, "Generator": cupy.random.Generator}
    invented = []
    for place, ours in places.items():
        for name, value in public(ours).items():
            imported = inspect.getmodule(value)
            ours_only = isinstance(value, ModuleType) or (imported and not imported.__name__.startswith("cupy"))
            if not ours_only and name not in real["names"][place]:
                invented.append(f"{place}.{name}")
    assert not invented


def test_every_parameter_of_the_look_alike_is_cupys(real, cupy):
    functions = sys.modules["cupy._functions"]
    table = functions.FUNCTIONS | functions.VIEWS | functions.WAITING | functions.JOINS
    checked, different = 0, {}
    for name, parameters in table.items():
        theirs = real["names"][""][name]
        ours = [parameter.lstrip("*") for parameter in parameters.split() if parameter != "constant_values"]
        if theirs is not None:  # as that of a compiled function is
            checked += 1
            if [parameter for parameter in theirs if parameter in ours] != ours:
                different[name] = theirs
    assert not different
    assert checked > 80


def test_what_has_no_hash_and_no_index(real):
    assert real["array hash"]
    assert real["device hash"]
    assert not real["index"]
    assert real["size"] == ["seed", "size"]
