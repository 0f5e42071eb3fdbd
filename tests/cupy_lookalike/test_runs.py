"""Runs by the real `xpsample_cupy` on the look-alike: no value leaves the device in the loop, all stays on its device,
and code that would be wrong or slow on a GPU is caught."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.bad_input_support import gaussian, log_density
from tests.compositions.around import Around
from xpsample.conformance import DeviceDtype, run_check, scenarios
from xpsample.core.backend import Device
from xpsample.core.errors import BackendError, FunctionError, LogDensityError
from xpsample.core.registry import backend_named
from xpsample.core.specs import Normal, Uniform
from xpsample.core.tree import items
from xpsample.kernels import MALA, RWM, ULA
from xpsample.particles.ais import AIS
from xpsample.particles.resampling import Systematic
from xpsample.particles.smc import TemperedSMC
from xpsample.sampling.eager import eager_repeat
from xpsample.sampling.noise import chunk_steps
from xpsample.score_mh import Sliced, fit, init_score_network
from xpsample.targets import check_gradient

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
SCENARIOS["hmc-by-length"] = replace(SCENARIOS["hmc"], kernel=lambda asarray: xps.HMC(0.4, length=2.0))

LOOPS = dict.fromkeys(
    ("hmc-by-length", "mams", "mams-dense-mass", "sr-mams", "srld-thinned", "srld-shared"), "a number"
) | dict.fromkeys(
    ("nuts", "nuts-dense-mass", "sr-nuts", "slice", "elliptical", "swendsen-wang", "swendsen-wang-potts"), "a condition"
)
"""What the host waits for in the loops of scenarios; docs/developer/without-a-gpu.md says so of their kernels."""


TARGET = gaussian()
RECORDERS = (xps.Draws(), xps.Statistics(), xps.Moments(), xps.BatchMeans(5))


@pytest.fixture
def second(cupy):
    """A place on the device that is not current."""
    return DeviceDtype(backend_named("cupy"), "cuda:1", cupy.cuda.Device(1), "float64")


@pytest.fixture
def x0(second):
    return second.array(np.linspace(-1, 1, 12).reshape(6, 2))


@pytest.fixture
def guarded(cupy, monkeypatch):
    """Runs in whose loop the host must not wait for the device, but for how often a loop inside a step goes round.

    Gives a list of what it waited for.
    """
    waited: list[str] = []
    backend = sys.modules[type(backend_named("cupy")).__module__]
    loop, lookalike = backend.eager_drive, cupy.lookalike

    def answered(question: Callable[..., Any]) -> Callable[..., bool]:
        def answer(*args: Any) -> bool:
            value = question(*args)
            waited.append("a condition")
            with lookalike.waits_allowed():
                return bool(value)

        return answer

    def repeat(n: Any, body: Callable[..., Any], carry: Any, until: Callable[..., Any] | None = None) -> Any:
        if not isinstance(n, int):
            waited.append("a number")
        with lookalike.waits_allowed():
            n = int(n)
        return eager_repeat(n, body, carry, until and answered(until))

    monkeypatch.setattr(backend, "eager_repeat", repeat)

    def drive(*args: Any, **options: Any) -> Any:
        with cupy.lookalike.no_waits("in the loop"):
            return loop(*args, **options)

    monkeypatch.setattr(backend, "eager_drive", drive)
    return waited


def on(device, array):
    assert array.device == device.handle
    return array.get()


# ---- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_value_leaves_the_device_in_the_loop_but_those_of_the_table(guarded, second, name):
    scenario = SCENARIOS[name]
    x0 = second.array(scenario.stationary.draw(np.random.default_rng(3), 6))
    target, kernel = scenario.target(second.array), scenario.kernel(second.array)
    for seed in (1, xps.Portable(1)):
        run = xps.sample(target, kernel, x0, 5, seed=seed, burn_in=2, thinning=2, progress=False)
        assert all(leaf.device == second.handle for _, leaf in items((run.draws, run.statistics, run.state)))
    assert set(guarded) == ({LOOPS[name]} if name in LOOPS else set())


def test_what_waits_does_not_grow_with_the_run(cupy, x0):
    waits = []
    for draws in (256, 512):
        cupy.lookalike.waits.clear()
        xps.sample(TARGET, MALA(0.4), x0, draws, seed=1, recorders=RECORDERS, progress=False)
        waits.append(len(cupy.lookalike.waits))
    assert waits[1] - waits[0] <= 10  # a segment more, whose sums come to the host


class Spoilt(Around):
    """A kernel whose step does something else first."""

    first: Callable[[Any, Any], Any]

    def step(self, target, state, noise):
        x = self.first(target.xp, state.point.x)
        return self.kernel.step(target, state._replace(point=state.point._replace(x=x)), noise)


def through_numpy(xp, x):
    return xp.asarray(np.asarray(x), device=x.device)


def by_value(xp, x):
    return x * (1.0 if float(x[0, 0]) < 1e9 else 2.0)


def by_branch(xp, x):
    return -x if xp.all(x > 1e9) else x


def by_shape_of_a_mask(xp, x):
    return x if x[x > 0].shape[0] >= 0 else -x


def by_explicit_copy(xp, x):
    return xp.asarray(sys.modules["cupy"].asnumpy(x))


def spoil(first):
    return Spoilt(RWM(1.0), first)


WAITS = {"by_value": by_value, "by_branch": by_branch, "by_mask": by_shape_of_a_mask, "by_copy": by_explicit_copy}


def test_what_goes_through_the_host_is_caught(x0):
    numpy_step, implicit = spoil(through_numpy), "Implicit conversion to a NumPy array is not allowed"
    for target, kernel, error, message in (
        (TARGET, numpy_step, FunctionError, implicit),
        (xps.Target(lambda x: -np.asarray(x)[..., 0]), RWM(1.0), LogDensityError, implicit),
        (xps.Target(lambda x: log_density(x * np.ones(2))), RWM(1.0), LogDensityError, "Unsupported type"),
        (xps.Target(lambda x: log_density(x * [1.0, 1.0])), RWM(1.0), LogDensityError, "Unsupported type"),
    ):
        with pytest.raises(error, match=message):
            xps.sample(target, kernel, x0, 3, seed=1, progress=False)


@pytest.mark.parametrize("name", WAITS)
def test_a_step_that_asks_for_a_value_is_caught(request, cupy, second, x0, name):
    kernel = spoil(WAITS[name])
    xps.sample(TARGET, kernel, x0, 3, seed=1, progress=False)  # as on a GPU: slower, and nobody says so
    cupy.lookalike.waits.clear()
    xps.sample(TARGET, kernel, x0, 300, seed=1, progress=False)
    assert len(cupy.lookalike.waits) >= 300
    outcome = run_check("no host transfer", replace(SCENARIOS["rwm"], kernel=lambda asarray: kernel), second)
    assert outcome.passed is False and "a step called" in outcome.detail
    request.getfixturevalue("guarded")
    xps.sample(TARGET, spoil(lambda xp, x: x), x0, 3, seed=1, progress=False)
    with pytest.raises(cupy.lookalike.HostWaits, match="in the loop"):
        xps.sample(TARGET, kernel, x0, 3, seed=1, progress=False)


@pytest.mark.parametrize("ask", [lambda x: bool((x < 1e9).all()), lambda x: float(x[0, 0]), lambda x: x.sum().item()])
def test_a_density_that_asks_for_a_value_is_caught(guarded, cupy, x0, ask):
    target = xps.Target(lambda x: log_density(x) + (0.0 if ask(x) is None else 1.0))
    with pytest.raises(cupy.lookalike.HostWaits):
        xps.sample(target, RWM(1.0), x0, 3, seed=1, progress=False)


# ---- devices ---------------------------------------------------------------------------------------------------------


def test_a_run_is_on_the_device_of_its_positions(cupy, second, x0, tmp_path):
    settings = {"seed": 1, "recorders": RECORDERS, "progress": False, "thinning": 2, "burn_in": 3, "check": True}
    whole = xps.sample(TARGET, MALA(0.4), x0, 60, **settings)
    xps.sample(TARGET, MALA(0.4), x0, 20, checkpoint=tmp_path, **settings)
    resumed = xps.sample(TARGET, MALA(0.4), x0, 60, checkpoint=tmp_path, **settings)
    assert cupy.cuda.Device().id == 0
    results = [items((run.draws, run.statistics, run.recorded, run.state)) for run in (whole, resumed)]
    for (path, a), (_, b) in zip(*results, strict=True):
        np.testing.assert_array_equal(on(second, a), on(second, b), err_msg=path)
    assert "x[0]" in str(whole.summary())


def test_the_device_is_current_in_the_run_only(cupy, second, x0):
    current = []

    def density(x):
        current.append(cupy.cuda.Device().id)
        return log_density(x)

    steps = xps.steps(xps.Target(density), RWM(1.0), x0, seed=1)
    for _ in range(3):
        state, _ = next(steps)
        assert cupy.cuda.Device().id == 0
        on(second, state.point.x)
    xps.sample(xps.Target(density), RWM(1.0), x0, 3, seed=1, progress=False)
    assert set(current) == {1}
    assert cupy.cuda.Device().id == 0
    with pytest.raises(LogDensityError):
        xps.sample(xps.Target(lambda x: density(x) * cupy.nan), RWM(1.0), x0, 3, seed=1, progress=False)
    assert cupy.cuda.Device().id == 0


@pytest.mark.parametrize(
    "kernel",
    [
        AIS(RWM(0.5), (0.0, 0.3, 1.0)),
        TemperedSMC(MALA(0.5), betas=(0.0, 0.3, 1.0), threshold=1.0, moves=1),
        TemperedSMC(RWM(0.5), ess=0.5, resampling=Systematic(), moves=1),
    ],
)
def test_weighted_particles_stay_on_their_device(guarded, second, x0, kernel):
    run = xps.sample(TARGET, kernel, x0, 6, seed=1, progress=False)
    for path, leaf in items(run.state):
        assert leaf.device == second.handle, path


@pytest.mark.parametrize("method", [xps.Pathfinder(paths=3), xps.Laplace(paths=3)], ids=["pathfinder", "laplace"])
def test_start_methods_stay_on_their_device(second, method):
    like = np.asarray([1.0, -2.0])
    x0 = xps.start(TARGET, second.array(like), 4, seed=1, method=method)
    on(second, x0)
    np.testing.assert_allclose(x0.get(), xps.start(TARGET, like, 4, seed=1, method=method), atol=1e-8)
    found = method.fit(TARGET, x0, seed=1)
    on(second, found.mean)
    run = xps.sample(TARGET, xps.HMC(0.5, 3, mass=found.mass), found.starts(3, seed=1), 5, seed=1)
    on(second, run.draws)


def test_checks_and_trainings_are_on_the_device_of_their_arrays(cupy, second, x0):
    assert check_gradient(TARGET, x0) < 1e-4
    assert check_gradient(xps.Target(lambda x: 2 * log_density(x), lambda x: -2 * x, lambda x, v: -2 * v), x0, hvp=True)
    pytest.importorskip("torch")
    score = init_score_network(2, 3, seed=1)
    fitted = fit(Sliced(1), score, x0, epochs=2, seed=1, validation=x0, gradient=xps.Via("torch"), progress=False)
    for _, leaf in items(fitted.parameters):
        on(second, leaf)
    assert cupy.cuda.Device().id == 0


def test_a_forgotten_device_is_caught(cupy, x0):
    """What is made outside of the run is on the device that is current there, and the positions are on another."""
    inside = xps.Target(lambda x: log_density(x * array_namespace(x).ones(2)))  # the device of the positions is current
    xps.sample(inside, RWM(1.0), x0, 3, seed=1, progress=False)
    scale = array_namespace(x0).asarray([1.0, 1.0])
    outside, held = (
        xps.Target(lambda x: log_density(x * scale)),
        xps.Target(lambda x, s: log_density(x * s), data=scale),
    )
    at_home = r"on cuda:0 and the positions are on cuda:1"
    for target, kernel, error, message in (
        (outside, RWM(1.0), ValueError, r"resides \(0\) is different from the current device \(1\)"),
        (held, RWM(1.0), BackendError, at_home),
        (TARGET, ULA(cupy.ones((6, 1))), BackendError, at_home),
    ):
        with pytest.raises(error, match=message):
            xps.sample(target, kernel, x0, 3, seed=1, progress=False)


@pytest.mark.parametrize(
    ("member", "forgetful"),
    [
        ("from_host", lambda self, array, like: sys.modules["cupy"].asarray(array)),
        ("noise", lambda self, seed, specs, start, stop, like: made_anywhere(specs, stop - start)),
        ("devices", lambda self, array=None: without_context(self, array)),
    ],
)
def test_a_backend_that_forgets_the_device_is_caught(second, monkeypatch, member, forgetful):
    """Each member makes its arrays on the device that it is told, whichever is current."""
    x0, backend = second.array(np.ones((6, 2))), second.backend

    def made():
        block = backend.noise(1, {"u": Uniform((3,))}, 0, 2, x0)
        xps.sample(TARGET, RWM(1.0), x0, 3, seed=1, progress=False)
        return block["u"], backend.from_host(np.ones(2), x0)

    assert all(array.device == second.handle for array in made())
    monkeypatch.setattr(type(backend), member, forgetful)
    with pytest.raises((AssertionError, ValueError)):
        assert all(array.device == second.handle for array in made())


def made_anywhere(specs, steps):
    return {name: sys.modules["cupy"].ones((steps, *spec.shape)) for name, spec in specs.items()}


def without_context(backend, array):
    return [Device("cuda:1", array.device, ("float32", "float64"))]


def test_a_run_waits_for_the_stream_that_it_ran_in(cupy, x0):
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream()
        with stream:
            xps.sample(TARGET, RWM(1.0), x0, 3, seed=1, recorders=(), progress=False)
            assert stream.done
            y = x0 + 1
            assert not stream.done
            with cupy.cuda.Device(0):  # wherever it is asked from
                backend_named("cupy").synchronize({"y": y, "count": 3})
            assert stream.done


# ---- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_a_function_of_seed_name_and_step(cupy, dtype):
    backend, like = backend_named("cupy"), cupy.zeros(1, dtype=dtype)
    specs = {"n": Normal((300, 7)), "u": Uniform((300,))}
    length = chunk_steps(specs)
    whole = backend.noise(5, specs, 0, 2 * length + 3, like)  # over the ends of chunks
    for start, stop in ((0, 1), (length - 1, length + 2), (length, 2 * length + 3)):
        part = backend.noise(5, specs, start, stop, like)
        for name, numbers in part.items():
            assert numbers.dtype == dtype
            np.testing.assert_array_equal(numbers.get(), whole[name][start:stop].get())
    assert abs(float(whole["n"].mean())) < 0.01 and abs(float(whole["n"].std()) - 1) < 0.01
    other = backend.noise(6, specs, 0, 1, like)
    assert not np.array_equal(other["n"].get(), whole["n"][:1].get())


def test_noise_is_the_same_on_devices_of_other_sizes(second, x0):
    """A generator runs on as many threads as the device has, by default, and the numbers depend on how many."""
    specs, x = {"n": Normal((3,))}, second.backend.xp.zeros(1)
    assert x.device != x0.device
    first, other = (second.backend.noise(5, specs, 0, 4, like)["n"] for like in (x, x0))
    np.testing.assert_array_equal(first.get(), on(second, other))


@pytest.mark.parametrize("end", [0, 1])
def test_uniforms_are_inside_their_interval(cupy, monkeypatch, end):
    generator = cupy.random.Generator
    monkeypatch.setattr(generator, "random", lambda self, size, dtype: cupy.full(size, end, dtype=dtype))
    for dtype in ("float32", "float64"):
        numbers = backend_named("cupy").noise(1, {"u": Uniform((4,))}, 0, 1, cupy.zeros(1, dtype=dtype))["u"].get()
        assert numbers.dtype == dtype and ((numbers > 0) & (numbers < 1)).all()


# ---- what the backend's namespace does itself ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_clip_does_not_wait(cupy, dtype):
    host = np.linspace(-2, 2, 9).astype(dtype)
    x, xp = cupy.asarray(host), backend_named("cupy").xp
    for low, high in ((-0.5, 0.5), (None, 0.5), (-0.5, None), (None, None), (0, 1)):
        with cupy.lookalike.no_waits():
            clipped = xp.clip(x, low, high)
            if low is not None:
                arrays = (v if v is None else cupy.full(9, v, dtype=dtype) for v in (low, high))
                assert xp.clip(x, *arrays).dtype == dtype
        assert clipped.dtype == dtype and clipped is not x
        if dtype != "int64":
            np.testing.assert_array_equal(clipped.get(), np.clip(host, low, high))
