"""A density raises in the middle of a run: the error is the user's own, what was saved goes on, others are left alone.

What is slow is in `test_limits_that_do_not_hold`, and what several threads call in `test_threads_that_sample_at_once`.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import FunctionError


class FailsAt:
    """A normal density whose call of a number fails, as where a solver of the user's does not converge."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise FloatingPointError("the solver did not converge")
        return -0.5 * (x * x).sum(-1)


def starts(lib, chains=3):
    return lib.asarray(np.random.default_rng(0).normal(size=(chains, 2)))


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("way", ["sample", "steps", "warm-up"])
def test_the_error_is_the_users_own(name, way):
    lib = pytest.importorskip(name)
    target, x0 = xps.Target(FailsAt(40)), starts(lib)

    def run():
        if way == "steps":
            return list(zip(xps.steps(target, xps.RWM(1.0), x0, seed=1), range(100), strict=False))
        return xps.sample(target, xps.RWM(None if way == "warm-up" else 1.0), x0, 100, seed=1, progress=False)

    with pytest.raises((FloatingPointError, FunctionError), match="the solver did not converge") as caught:
        run()
    shown = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert any(isinstance(error, FloatingPointError) for error in shown)


@pytest.mark.parametrize("at", [90, 320], ids=["warm-up", "draws"])
def test_the_same_call_goes_on_from_the_checkpoint(tmp_path, at):
    """Bit for bit what the run had been without the failure, which is of something that the density asks for."""
    quota = tmp_path / "quota"

    def density(x):
        left = int(quota.read_text())
        if left == 0:
            raise TimeoutError("no more calls today")
        quota.write_text(str(left - 1))
        return -0.5 * (x * x).sum(-1)

    def run(calls, **options):
        quota.write_text(str(calls))
        trace = xps.sample(
            xps.Target(density), xps.RWM(), starts(np), 400, seed=1, warmup=150, progress=False, **options
        )
        return trace.draws, calls - int(quota.read_text())

    saved = xps.Checkpoint(tmp_path / "run", every=1e-6)
    with pytest.raises((TimeoutError, FunctionError), match="no more calls today"):
        run(at, checkpoint=saved)
    again, made = run(1000, checkpoint=saved)
    whole, every = run(1000)
    np.testing.assert_array_equal(again, whole)
    # The block of steps that failed is lost, which may be a whole warm-up of fast steps; what was before it is not.
    assert made < every - 100 or at < 150


def test_a_run_that_fails_leaves_those_of_other_threads_alone():
    """Both threads are inside of a run when the first one fails."""
    both = threading.Barrier(2, timeout=30)
    x0 = starts(np)

    def run(fails):
        density = FailsAt(50 if fails else 0)

        def met(x):
            if density.calls == 30:
                both.wait()
            return density(x)

        return xps.sample(xps.Target(met), xps.RWM(1.0), x0, 200, seed=1, progress=False).draws

    alone = xps.sample(xps.Target(FailsAt(0)), xps.RWM(1.0), x0, 200, seed=1, progress=False).draws
    with ThreadPoolExecutor(2) as pool:
        fails, well = pool.submit(run, True), pool.submit(run, False)
        with pytest.raises((FloatingPointError, FunctionError)):
            fails.result()
        np.testing.assert_array_equal(well.result(), alone)
    np.testing.assert_array_equal(xps.sample(xps.Target(FailsAt(0)), xps.RWM(1.0), x0, 200, seed=1).draws, alone)
