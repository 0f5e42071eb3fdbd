"""Data that change on their way into the positions' library: narrower integers, rounded floats, other objects.

`jax.device_put` wraps integers that 32 bits cannot hold, without a word (jax#8178), and Julian dates in float32 are a
quarter of a day apart. Strides that torch cannot read end the process (pytorch#59786).
"""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.core.errors import HyperparameterError

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")


def placed(library, data, dtype="float32"):
    """The data as the functions of a target receive them."""
    x0 = library.array(np.zeros((2, 1), dtype=dtype))
    target = xps.Target(lambda x, d: -0.5 * library.xp.sum(x**2, axis=-1), data=data)
    return target.prepare(x0, xps.RWM(1.0).requires).data


# ---- integers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(request):
    """JAX without its 64-bit types, in a process of its own where the suite runs with them."""
    jax = pytest.importorskip("jax")
    with jax.experimental.enable_x64(False) if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(False):
        yield jax


WAYS = {
    "data": lambda xps, jax, n: xps.Target(lambda x, n: -0.5 * jax.numpy.sum(x**2, axis=-1), data={"n": n}),
    "a model": lambda xps, jax, n: xps.Model(lambda p, n: -0.5 * p.x**2, x=xps.Real(), data={"n": n}),
    "a posterior": lambda xps, jax, n: xps.posterior(
        lambda x: -0.5 * jax.numpy.sum(x**2, axis=-1), lambda x, rows: 0.0 * x[..., 0], {"n": n}
    ),
}


TOO_LARGE = [("int64", 2**31), ("int64", -(2**31) - 1), ("int64", 2**40), ("uint64", 2**32), ("uint64", 2**63)]


@pytest.mark.first_tier
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "value"), TOO_LARGE)
def test_integers_that_do_not_fit_are_refused(narrow, way, dtype, value):
    named = rf"n' has the integer {value}, which {dtype.replace('64', '32')} cannot hold. Pass data.astype"
    target = WAYS[way](xps, narrow, np.array([1, value], dtype=dtype))
    with pytest.raises(HyperparameterError, match=named):
        target.prepare(narrow.numpy.zeros((2, 1)), xps.RWM(1.0).requires)


@pytest.mark.slow
@pytest.mark.first_tier
def test_integers_whose_products_overflow_are_said_once(narrow):
    """The posterior mean was -0.18 for 2.44."""
    n = np.array([60000, 80000, 120000])
    x0 = narrow.numpy.zeros((4, 1))

    def density(x, n):
        return -0.5 * (x[..., 0] - (n * n).sum() / 1e10) ** 2

    with pytest.warns(UserWarning, match=r"data became int32 \(from int64\).*may overflow") as caught:
        xps.sample(xps.Target(density, data=n), xps.RWM(1.0), x0, 20, seed=1, progress=False)
    assert caught[0].filename == __file__
    trace = xps.sample(xps.Target(density, data=n.astype(float)), xps.RWM(2.0), x0, 2000, seed=1, progress=False)
    assert abs(float(trace.draws.mean()) - 2.44) < 0.2  # five standard errors


@pytest.mark.parametrize("fine", [np.arange(1000), np.array([True, False]), np.array([], dtype=int), np.int32([10**9])])
def test_small_integers_pass_without_a_warning(narrow, fine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WAYS["data"](xps, narrow, fine).prepare(narrow.numpy.zeros((2, 1)), xps.RWM(1.0).requires)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_other_libraries_keep_them(name):
    library = open_library(name, "float32")
    assert library.host(placed(library, np.array([2**40]))).tolist() == [2**40]


# ---- floats ----------------------------------------------------------------------------------------------------------


def periodic(xp, offset):
    """A wave of period 0.5 at times after an offset; its amplitudes are 0.5 and -1.5, to about 0.1."""
    rng = np.random.default_rng(0)
    since = np.sort(rng.uniform(0, 1000, 60))
    y = 0.5 * np.sin(4 * np.pi * since) - 1.5 * np.cos(4 * np.pi * since) + 0.5 * rng.normal(size=60)

    def log_density(x, data):
        phase = 4 * np.pi * (data["t"] - offset)
        mean = x[..., :1] * xp.sin(phase) + x[..., 1:] * xp.cos(phase)
        return -2.0 * xp.sum((data["y"] - mean) ** 2, axis=-1) - 0.5 * xp.sum(x**2, axis=-1)

    return xps.Target(log_density, data={"t": offset + since, "y": y})


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_dates_that_lose_their_fraction_are_named(name):
    xp = pytest.importorskip("jax.numpy" if name == "jax" else name)
    for offset, dtype, found in ((2.4e6, "float32", True), (0.0, "float32", False), (2.4e6, "float64", False)):
        if name == "jax" and dtype == "float64":
            continue
        x0 = xp.zeros((4, 2), dtype=getattr(xp, dtype))
        trace = xps.sample(periodic(xp, offset), xps.RWM(), x0, 500, seed=1, progress=False)
        named = [f for f in trace.diagnose() if f.kind == "precision"]
        assert bool(named) == found, (offset, dtype)
        if found:
            assert "rounding of data 't' changes log densities" in str(named[0])
        else:
            np.testing.assert_allclose(np.asarray(trace.draws.mean((0, 1))), [0.5, -1.5], atol=0.4)


# ---- layouts and other objects ---------------------------------------------------------------------------------------

RECORDS = np.zeros(3, dtype=[("a", "f4"), ("b", "f8")])
LAYOUTS = {
    "reversed": np.arange(3.0)[::-1],
    "reversed, of one": np.ones((1, 1))[:, ::-1],
    "a field of records": RECORDS["b"],
    "big-endian": np.arange(3, dtype=">i4"),
    "big-endian floats": np.arange(3, dtype=">f4"),
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "read-only": np.broadcast_to(np.arange(3.0), (2, 3)),
}


@pytest.mark.first_tier
@pytest.mark.parametrize("data", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_in_memory_is_read(library, data):
    np.testing.assert_array_equal(library.host(placed(library, data, "float64")), data)


@pytest.mark.parametrize("layout", ["reversed", "reversed, of one", "a field of records"])
@pytest.mark.parametrize("other", ["torch", "jax"])
def test_a_borrowed_gradient_reads_any_layout(layout, other):
    """In a process of its own, which torch ended."""
    pytest.importorskip(other)
    code = f"""
import numpy as np, xpsample as xps
from tests.field.test_data_that_change_on_the_way import LAYOUTS
d = LAYOUTS[{layout!r}]
target = xps.Target(lambda x, d: -0.5 * ((x - d.sum()) ** 2).sum(-1), data=d, gradient=xps.Via({other!r}))
x0 = np.arange(6, dtype=np.float32).reshape(3, 2)[::-1, ::-1]
print(target.prepare(x0, xps.MALA(0.1).requires).evaluate(x0).score[0, 0] == d.sum() - x0[0, 0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr[-500:]


class Frame:
    """Stands for a pandas or polars object."""

    def to_numpy(self):
        return np.zeros(3)


class Table:
    """Stands for an object that NumPy can read."""

    def __array__(self, dtype=None, copy=None):
        return np.zeros(3)


class Quantity(np.ndarray):
    """Stands for an array with units."""


@pytest.mark.first_tier
@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (Frame(), r"Pass its \.to_numpy\(\)"),
        (Table(), r"Pass its numpy\.asarray"),
        (np.zeros(3).view(Quantity), "plain array of numbers; got a Quantity"),
    ],
)
def test_other_objects_are_refused_with_advice(library, data, advice):
    with pytest.raises(HyperparameterError, match=advice):
        placed(library, {"y": data})
