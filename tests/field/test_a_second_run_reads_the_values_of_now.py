"""What a density reads changes between two runs: the second one is that of a fresh process (numpyro#441)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpsample as xps
from tests.field.changing_densities import (
    AFTER,
    BEFORE,
    WAYS,
    bowl,
    by_global,
    fixed,
    read,
    set_centre,
)
from xpsample.core.errors import GradientError
from xpsample.core.registry import backend_of
from xpsample.score_mh import Sliced, fit
from xpsample.targets import check_gradient

pytestmark = [pytest.mark.first_tier, pytest.mark.usefixtures("as_before")]

LIBRARIES = ["numpy", "torch", "jax"]


def run(target, kernel, x0, draws=6, **settings):
    trace = xps.sample(target, kernel, x0, draws, seed=xps.Portable(1), progress=False, **settings)
    return np.asarray(trace.draws)


def by(kernel, **settings):
    return lambda target, x0: run(target, kernel, x0, **settings)


def steps(target, x0):
    chain = xps.steps(target, xps.RWM(0.5), x0, seed=xps.Portable(1))
    return np.asarray([np.asarray(next(chain)[0].point.x) for _ in range(6)])


def in_threads(target, x0):
    with ThreadPoolExecutor(2) as pool:
        return run(target, xps.RWM(0.5), x0, shards=2, executor=pool)


def along_a_bridge(target, x0):
    bridge = xps.Bridge(xps.Target(lambda x: bowl(x, 3.0), gradient=target.gradient), target)
    return run(bridge, xps.ParallelTempering(xps.RWM(0.5), (1.0, 0.5)), x0)


ENTRIES = {
    "RWM": by(xps.RWM(0.5)),
    "MALA": by(xps.MALA(0.1)),
    "HMC": by(xps.HMC(0.2, 3)),
    "steps": steps,
    "shards": by(xps.RWM(0.5), shards=2),
    "bridge": along_a_bridge,
    "NUTS": by(xps.NUTS(0.3)),
    "ULA": by(xps.ULA(0.05)),
    "SRMC": by(xps.SRMC(xps.MALA(0.1), 0.3, tilt=xps.Exact())),
    "tempering": by(xps.ParallelTempering(xps.RWM(0.5), (1.0, 0.5))),
    "tempered": lambda target, x0: run(xps.Tempered(target, 0.5), xps.RWM(0.5), x0),
    "threads": in_threads,
    "a warm-up": by(xps.RWM(), warmup=50),
}


def start(library):
    xp = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    return xp.asarray(np.random.default_rng(3).normal(3.0, 0.3, (4, 2)).astype(np.float32))


def gradient(library):
    return xps.FiniteDifference(1e-2) if library == "numpy" else xps.Auto()


def assert_fresh(call, targets, change, expected):
    """After a change the run of each target is that of the expected one, which it was not before."""
    first = call(targets[0])
    change()
    wanted = call(expected)
    # Six steps: the rounding of two programs stays below 1e-3, and another mode changes the first digit.
    for target in targets:
        np.testing.assert_allclose(call(target), wanted, atol=1e-3)
    assert np.abs(first - wanted).max() > 0.1


def check(way, entry, library):
    x0, (density, change) = start(library), WAYS[way]()
    target, anew, expected = (xps.Target(f, gradient=gradient(library)) for f in (density, density, fixed))
    assert_fresh(lambda target: ENTRIES[entry](target, x0), [target, anew], change, expected)


@pytest.mark.sampled(4)
@pytest.mark.first_cases(2 * len(WAYS) + 2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_way_of_changing(way, library):
    check(way, "RWM", library)


@pytest.mark.sampled(4)
@pytest.mark.first_cases(2 * len(ENTRIES) + 6)
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_entry(entry, library):
    check("float64 in place", entry, library)


MADE = {
    "target": lambda data, **own: xps.Target(lambda x, data: bowl(x, data[:2]), data=data, **own),
    "model": lambda data, **own: xps.Model(lambda p, data: bowl(p.a, data), a=xps.Real(2), data=data, **own),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("made", "length"), [("target", 2), pytest.param("target", 5_000_000, marks=pytest.mark.slow), ("model", 2)]
)
def test_data_changed_in_place(library, made, length):
    data, x0 = np.full(length, BEFORE), start(library)
    targets = [MADE[made](data, gradient=gradient(library))]
    expected = MADE[made](np.full(length, AFTER), gradient=gradient(library))
    assert_fresh(lambda target: run(target, xps.MALA(0.1), x0), targets, lambda: data.fill(AFTER), expected)


# ---- functions whose traces JAX or torch keep ------------------------------------------------------------------------


def kept_by_jax(jax):
    """Densities within which JAX calls a function that reads the global, or a float64 array."""
    modes = np.full(2, BEFORE)

    def of_one(x):
        return bowl(x, read())

    def body(carry, _):
        return carry + read(), None

    def within(x):
        shift = jax.lax.fori_loop(0, 1, lambda i, carry: carry + read(), jax.numpy.zeros_like(x))
        return jax.jit(lambda x: bowl(x, shift))(x)

    def change():
        set_centre()
        modes.fill(AFTER)

    return change, {
        "scan": lambda x: bowl(x, jax.lax.scan(body, jax.numpy.zeros_like(x), None, length=1)[0]),
        "cond": lambda x: jax.lax.cond(x.sum() > -1e9, of_one, of_one, x),
        "jit": jax.jit(of_one),
        "jit within": lambda x, f=jax.jit(of_one): 1.0 * f(x),
        "array": lambda x: bowl(x, modes),
        "made within": within,
    }


@pytest.mark.slow
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", ["scan", "cond", "jit", "jit within", "array", "made within"])
def test_what_jax_keeps_is_forgotten_by_clear_caches(name):
    """The documented remedy, if a user's own `jit`, `scan` or `cond` outlives a run; not needed if made within it."""
    jax = pytest.importorskip("jax")
    change, densities = kept_by_jax(jax)

    def change_and_clear():
        change()
        if name != "made within":
            jax.clear_caches()

    with jax.enable_x64(False):
        targets = [xps.Target(densities[name])]
        call = lambda target: run(target, xps.MALA(0.1), start("jax"))  # noqa: E731
        assert_fresh(call, targets, change_and_clear, xps.Target(fixed))


def test_two_callbacks_of_one_text_are_two_programs():
    jax, x0 = pytest.importorskip("jax"), start("jax")

    def target(mode):
        def on_the_host(x):
            return np.asarray(bowl(np.asarray(x), np.float32(mode)), dtype=np.float32)

        shape = jax.ShapeDtypeStruct((4,), np.float32)
        return xps.Target(lambda x: jax.pure_callback(on_the_host, shape, x))

    run(target(BEFORE), xps.RWM(0.5), x0)
    found = run(target(AFTER), xps.RWM(0.5), x0)
    np.testing.assert_allclose(found, run(xps.Target(fixed), xps.RWM(0.5), x0), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["a global", "an item of a list", "an attribute behind a method", "in place"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_a_compiled_step_of_torch_is_compiled_again(way):
    """Also when torch has compiled as many steps as it allows; all kernels share one function, `Kernel.advance`."""
    torch, x0 = pytest.importorskip("torch"), start("torch")
    modes = torch.full((2,), BEFORE)
    in_place = lambda x: bowl(x, modes), lambda: modes.fill_(AFTER)
    density, change = in_place if way == "in place" else WAYS[way]()
    target = xps.Target(density)
    for _ in range(2):
        with torch._dynamo.config.patch(recompile_limit=1):
            made = run(target, xps.RWM(0.3), x0, 50, compile=True)
        np.testing.assert_allclose(made, run(target, xps.RWM(0.3), x0, 50), rtol=1e-5)
        change()


# ---- what else calls a density ---------------------------------------------------------------------------------------


def test_check_gradient():
    """A score that was right, and is no more; and one that was wrong, and is right now."""
    x = start("jax")
    was_right, is_right = (
        xps.Target(by_global, score=lambda x, mode=mode: -4.0 * (x - mode)) for mode in (BEFORE, AFTER)
    )
    for _ in range(2):
        check_gradient(was_right, x)
        with pytest.raises(GradientError, match="disagrees"):
            check_gradient(is_right, x)
        set_centre()
        was_right, is_right = is_right, was_right


def test_start_positions():
    jnp = pytest.importorskip("jax.numpy")
    target = xps.Target(lambda x: jnp.where(jnp.any(x < read(), axis=-1), -jnp.inf, 0.0), constrained=True)
    like = jnp.full(2, 2.0, dtype=np.float32)
    assert np.min(xps.start(target, like, 8, seed=1)) > BEFORE
    set_centre(3.0)
    assert np.min(xps.start(target, like, 8, seed=1)) > 3.0


def test_functions_compiled_for_eager_calls():
    jnp = pytest.importorskip("jax.numpy")
    autodiff, x = backend_of(jnp.ones(2)).autodiff, jnp.ones(2)

    def f(x):
        return x * read()

    assert float(autodiff.compiled(f)(x)[0]) == BEFORE
    set_centre()
    assert float(autodiff.compiled(f)(x)[0]) == AFTER
    assert float(autodiff.value_and_grad(lambda x: f(x).sum())(x)[1][0]) == AFTER


@pytest.mark.slow
def test_a_training():
    """The loss reads a global: the second training is that of another loss."""
    jnp = pytest.importorskip("jax.numpy")
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32))
    loss = Sliced(network=lambda x, parameters: read() * parameters["a"] * x)

    def train():
        trained = fit(loss, {"a": jnp.zeros(1)}, rows, epochs=5, seed=1, progress=False).parameters
        return float(trained["a"][0])

    first = train()
    set_centre(-1.0)
    assert np.sign(train()) == -np.sign(first) != 0
