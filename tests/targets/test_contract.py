"""What a user's functions must keep to: they write into nothing that they are given or gave, and keep their form."""

from functools import partial

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import LogDensityError
from xpsample.kernels import HMC, MALA, RWM, ULA
from xpsample.kernels.discrete.balanced import LocallyBalanced
from xpsample.spaces.discrete import Binary
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Target

X0 = np.zeros((4, 2))
TILTED = SRMC(MALA(0.1), alpha=1.0, tilt=Exact())


@pytest.fixture
def writable(library):
    """Every library whose arrays can be written into."""
    if library.backend.name == "jax":
        pytest.skip("arrays of JAX cannot be written into")
    return library


def log_density(x):
    return -0.5 * array_namespace(x).sum(x * x, axis=-1)


def run(target, kernel, x0=X0, draws=30):
    return xps.sample(target, kernel, x0, draws, seed=1, progress=False)


# ---- what they write into --------------------------------------------------------------------------------------------


def test_a_score_that_writes_into_the_positions(writable):
    """NumPy refuses a density that would do so, though nothing changes at the start."""

    def score(x):
        slope = -x
        x[...] = x + 1
        return slope

    x0 = writable.array(X0)
    with pytest.raises(LogDensityError, match=r"writes into the positions .*: let it work on a copy"):
        run(Target(log_density, score=score), ULA(0.1), x0)
    np.testing.assert_array_equal(writable.host(x0), X0)
    with pytest.raises(LogDensityError, match="writes into the positions"):
        run(Target(lambda x: log_density(np.clip(x, -5, 5, out=x))), RWM(1.0))


def test_an_hvp_that_writes_into_the_vector(writable):
    def hvp(x, v):
        v[...] = v - 1
        return v

    target = Target(log_density, score=lambda x: -x, hvp=hvp)
    with pytest.raises(LogDensityError, match="writes into the positions"):
        run(target, TILTED, writable.array(X0))


def test_a_density_that_writes_into_its_data(writable):
    def offset(x, data):
        data[...] = data + 1
        return log_density(x) + array_namespace(x).sum(data)

    with pytest.raises(LogDensityError, match="the log density is 6 and then 18 at one position"):
        run(Target(offset, data=writable.array(np.zeros(6))), RWM(1.0), writable.array(X0))


# ---- what they return ------------------------------------------------------------------------------------------------


def reusing(f, buffer):
    """`f` with its result in memory that the next call writes into."""

    def call(*args):
        buffer[...] = f(*args)
        return buffer

    return call


def score(x):
    return -x


def hvp(x, v):
    return -v


ROOM = {"log density": (4,), "score": (4, 2), "hvp": (4, 2), "differences": (4, 2, 1)}


def own_memory(what, library):
    """A target one of whose functions uses its memory again, and a kernel that calls it."""
    again = partial(reusing, buffer=library.array(np.zeros(ROOM[what])))
    if what == "log density":  # the same for all chains at the start, so that only another position tells
        return Target(again(log_density)), RWM(1.0)
    if what == "score":
        return Target(log_density, score=again(score)), MALA(0.1)
    if what == "hvp":
        return Target(log_density, score=score, hvp=again(hvp)), TILTED
    differences = again(lambda x: (1 - 2 * x)[..., None])
    return Target(lambda x: x[..., 0] + x[..., 1], differences=differences, space=Binary()), LocallyBalanced()


@pytest.mark.parametrize("what", ROOM)
def test_a_function_that_uses_its_memory_again(writable, what):
    with pytest.raises(LogDensityError, match=f"the {what} is in memory that the next call overwrites"):
        run(*own_memory(what, writable), writable.array(X0))


def test_what_is_returned_twice_and_never_changed_is_fine(writable):
    slope = writable.array(np.ones((4, 2)))
    target = Target(lambda x: array_namespace(x).sum(x, axis=-1), score=lambda x: slope)
    assert np.all(np.isfinite(writable.host(run(target, MALA(0.1), writable.array(X0)).draws)))


def test_a_density_that_does_not_take_every_position():
    """The start is on the edge of those that it takes; its own error would end a run that went over it."""

    def on_the_left(x):
        if np.any(x > 0):
            raise RuntimeError("too far")
        return log_density(x)

    assert Target(on_the_left).prepare(X0, RWM(1.0).requires)
    with pytest.raises(LogDensityError, match="RuntimeError: too far"):
        run(Target(on_the_left), RWM(1.0), X0 + 1)


# ---- their form, all the way -----------------------------------------------------------------------------------------


def later(f, other, after=20):
    """`f`, and from some call on `other`."""
    calls = []

    def call(*args):
        calls.append(1)
        return (f if len(calls) < after else other)(*args)

    return call


FORMS = {
    "a number for all": (lambda x: array_namespace(x).sum(log_density(x)), r"have shape \(4,\) for .*; got \(\)"),
    "a column": (lambda x: log_density(x)[:, None], r"have shape \(4,\) for .*; got \(4, 1\)"),
    "a plain number": (lambda x: 0.0, "be an array of the positions' library; got float"),
}


@pytest.mark.parametrize(("other", "message"), FORMS.values(), ids=FORMS)
def test_a_density_that_changes_its_form_in_the_middle(writable, other, message):
    with pytest.raises(LogDensityError, match=f"the log density must .*{message}"):
        run(Target(later(log_density, other)), RWM(1.0), writable.array(X0))


@pytest.mark.parametrize("kernel", [ULA(0.1), MALA(0.1), HMC(0.1, 3)], ids=["ULA", "MALA", "HMC"])
def test_a_score_that_changes_its_dtype_in_the_middle(writable, kernel):
    wide = writable.array(X0, "float64")
    target = Target(log_density, score=later(score, lambda x: -wide))
    with pytest.raises(LogDensityError, match="the score must keep the positions' dtype float32; got float64"):
        run(target, kernel, writable.array(X0, "float32"))


def test_an_hvp_of_another_shape(library):
    target = Target(log_density, score=score, hvp=lambda x, v: v[..., 0])
    with pytest.raises(LogDensityError, match="the hvp must have shape"):
        run(target, TILTED, library.array(X0))
