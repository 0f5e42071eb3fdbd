"""A density that couples the chains, or is random, is refused by name before the first step.

A softmax, a mean or a norm over the axis of the chains gives values of the right shape, and each chain then has another
distribution (tensorflow/probability#1093). Two copies of one chain tell, or a chain whose neighbors have moved.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import LogDensityError
from xpsample.targets.check import check_gradient

COUPLED = "of a chain changes with the other chains"
STARTS = {
    "all at one point": np.zeros((4, 2)),
    "apart": np.random.default_rng(0).normal(size=(5, 2)),
    "far out": np.full((3, 2), 1e9),
    "two groups": np.zeros((3, 4, 2)),
    "groups of one": np.zeros((3, 1, 2)),
    "one chain": np.zeros((1, 2)),
    "one chain of one group": np.zeros((1, 1, 2)),
}


def normal(x):
    return -0.5 * array_namespace(x).sum(x**2, axis=-1)


def centred(x):
    return normal(x - array_namespace(x).mean(x, axis=0, keepdims=True))


def run(target, kernel, x0, **settings):
    return xps.sample(target, kernel, x0, 3, seed=1, progress=False, **settings)


@pytest.mark.first_tier
@pytest.mark.parametrize("x0", STARTS.values(), ids=STARTS)
def test_a_density_that_is_centred_over_the_chains(library, x0):
    """From one chain alone it would be flat."""
    with pytest.raises(LogDensityError, match=f"the log density {COUPLED}.*batched"):
        run(xps.Target(centred), xps.RWM(1.0), library.array(x0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("chains", [(3, 4), (3, 1), (1, 4), (1, 1)])
def test_groups_that_feel_each_other(axis, chains):
    target = xps.Target(lambda x: normal(x - np.mean(x, axis=axis, keepdims=True)))
    with pytest.raises(LogDensityError, match=COUPLED):
        run(target, xps.RWM(1.0), np.zeros((*chains, 2)))


READ = {
    "only those before": lambda x: np.cumsum(normal(x), axis=0),
    "the first one": lambda x: normal(x - 0.5 * x[..., :1, :]),
    "the even ones": lambda x: normal(x - 0.5 * x[..., ::2, :].mean(-2)[..., None, :]),
}


@pytest.mark.parametrize("start", ["all at one point", "apart", "two groups"])
@pytest.mark.parametrize("density", READ.values(), ids=READ)
def test_chains_that_feel_some_chains(density, start):
    with pytest.raises(LogDensityError, match=f"{COUPLED}|depends on the chain's index"):
        run(xps.Target(density), xps.RWM(1.0), np.array(STARTS[start]))


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
@pytest.mark.parametrize("shape", [(5, 1), (3, 5, 1)])
def test_as_many_rows_as_chains(library, shape):
    """Without an axis for the rows chain i samples the posterior given row i alone."""
    y = np.asarray([0.1, 0.2, 0.15, 0.05, 0.12])
    for x0 in (np.zeros(shape), np.random.default_rng(0).normal(size=shape)):
        wrong = xps.Target(lambda x, y: -0.5 * (y - x[..., 0]) ** 2, data=y)
        with pytest.raises(LogDensityError, match=r"depends on the chain's index.*sum\(-1\)"):
            run(wrong, xps.RWM(1.0), library.array(x0))
        right = xps.Target(lambda x, y: normal(y - x[..., :1]), data=y)
        assert run(right, xps.RWM(1.0), library.array(x0)).draws.shape == (3, *shape)


def test_a_softmax_over_the_chains():
    torch = pytest.importorskip("torch")
    target = xps.Target(lambda x: torch.log_softmax(-0.5 * torch.sum(x**2, -1), 0))
    for name in ("all at one point", "one chain", "apart"):
        with pytest.raises(LogDensityError, match=COUPLED):
            run(target, xps.HMC(0.1, 3), torch.asarray(STARTS[name]))


@pytest.mark.parametrize("statistics", [False, True])
def test_batch_normalisation_in_training_mode(statistics):
    torch = pytest.importorskip("torch")
    layer = torch.nn.BatchNorm1d(2, track_running_stats=statistics)
    x0 = torch.asarray(np.random.default_rng(0).normal(size=(6, 2)).astype("float32"))
    with pytest.raises(LogDensityError, match=rf"{COUPLED}.*module.eval\(\)"):
        run(xps.Target(lambda x: normal(layer(x))), xps.HMC(0.1, 3), x0)
    if statistics:
        layer.eval()
        assert run(xps.Target(lambda x: normal(layer(x))), xps.HMC(0.1, 3), x0).draws.shape == (3, 6, 2)


def test_dropout():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Dropout(0.1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for lowered in (0.0, 1e4):
            target = xps.Target(lambda x, lowered=lowered: normal(layer(x)) - lowered)
            with pytest.raises(LogDensityError, match=r"and then .* at one position.*switch off dropout"):
                run(target, xps.HMC(0.1, 3), 3 * torch.ones(6, 20))


def test_noise_below_a_large_constant():
    """A thousandth of a log density of 1e5 is 100, and decides what is accepted."""
    generator = np.random.default_rng(0)
    noisy = xps.Target(lambda x: normal(x) - 1e5 + 5 * generator.normal(size=x.shape[:-1]))
    with pytest.raises(LogDensityError, match="at one position"):
        run(noisy, xps.RWM(1.0), np.zeros((4, 2)))


def apart(v):
    return v - np.mean(v, axis=0)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("score", {"score": lambda x: -apart(x)}),
        ("hvp", {"score": lambda x: -x, "hvp": lambda x, v: -apart(v)}),
        (
            "score_plus_hvp",
            {"score": lambda x: -x, "hvp": lambda x, v: -v, "score_plus_hvp": lambda x, v: -x - apart(v)},
        ),
    ],
)
def test_scores_and_products_of_the_user(function, given):
    target = xps.Target(None if function == "score" else normal, **given)
    kernel = xps.ULA(0.1) if function == "score" else xps.SRMC(xps.ULA(0.1), 0.1)
    with pytest.raises(LogDensityError, match=f"the {function} {COUPLED}"):
        run(target, kernel, np.zeros((4, 2)))


def along(kernel):
    return lambda target, x0: run(xps.Bridge(xps.Target(normal), target), kernel, x0)


ENTRIES = {
    "steps": lambda target, x0: next(xps.steps(target, xps.RWM(1.0), x0, seed=1)),
    "particles": along(xps.TemperedSMC(xps.RWM(1.0), ess=0.5, moves=1)),
    "annealing": along(xps.AIS(xps.RWM(1.0), np.linspace(0, 1, 4))),
    "Stein": lambda target, x0: run(target, xps.SVGD(0.1), x0),
    "tempered": lambda target, x0: run(xps.Tempered(target, 0.5), xps.RWM(1.0), x0),
    "a start": lambda target, x0: xps.start(target, x0[0], 4, seed=0),
    "a check": lambda target, x0: check_gradient(target, x0),
    "shards": lambda target, x0: run(target, xps.RWM(1.0), x0, shards=2),
    "bits": lambda target, x0: run(replace(target, space=xps.Binary()), xps.SingleFlip(), x0),
    "a model": lambda target, x0: run(xps.Model(lambda p: centred(p.z), z=xps.Real(2)), xps.RWM(1.0), x0),
    "a family": lambda target, x0: run(xps.Parametric(lambda x, p: centred(x) * p, np.ones(())), xps.RWM(1.0), x0),
}


@pytest.mark.parametrize("call", ENTRIES.values(), ids=ENTRIES)
def test_every_entry_refuses_it(call):
    with pytest.raises(LogDensityError, match=COUPLED):
        call(xps.Target(centred), np.zeros((8, 2)))


# ---- what stays allowed ----------------------------------------------------------------------------------------------


def test_chains_with_data_of_their_own(library):
    """Groups may have data of their own, and chains may not: their draws would be of different distributions."""
    x0 = library.array(np.random.default_rng(0).normal(size=(3, 4, 2)))

    def runs(axes):
        middle = np.random.default_rng(1).normal(size=axes)
        return run(xps.Target(lambda x, m: normal(x - m), data=middle), xps.RWM(1.0), x0)

    assert runs((3, 1, 2)).draws.shape == (3, 3, 4, 2)
    for axes in ((3, 4, 2), (1, 4, 2)):
        with pytest.raises(LogDensityError, match=r"depends on the chain\'s index: .*groups of chains"):
            runs(axes)


def test_products_of_matrices_that_round(typed_library):
    """A large log density of many rows, in float32 too: rows of a product may be rounded apart."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 7))

    def large(x, rows):
        return -100 * array_namespace(x).sum((x @ rows.T - 1) ** 2, axis=-1)

    target = xps.Target(large, data=rows)
    for chains in (1, 5, 33):
        x0 = typed_library.array(rng.normal(size=(chains, 7)))
        assert run(target, xps.RWM(1e-4), x0).draws.shape == (3, chains, 7)


def test_functions_that_take_few_positions():
    """Outside of a box it raises, so that the neighbors go to where others began; a box of one point tells nothing."""

    def inside(x):
        if np.any(np.abs(x) > 2):
            raise ValueError("outside")
        return normal(x)

    x0 = np.random.default_rng(0).uniform(-1, 1, size=(4, 2))
    assert xps.Target(inside).prepare(x0, xps.RWM(0.1).requires)
    coupled = xps.Target(lambda x: inside(x) - inside(x).mean())
    with pytest.raises(LogDensityError, match=COUPLED):
        coupled.prepare(x0, xps.RWM(0.1).requires)


def test_a_slow_density_is_called_twice_before_the_first_step():
    shapes = []

    def slow(x):
        shapes.append(x.shape)
        return normal(x)

    for x0 in (np.zeros((4, 2)), np.zeros((1, 2)), np.zeros(2)):
        shapes.clear()
        xps.Target(slow).prepare(x0, xps.RWM(1.0).requires)
        positions = sum(math.prod(shape[:-1]) for shape in shapes)
        assert (len(shapes), positions) == ((2, 8) if len(x0) == 4 else (3, 4))


def test_it_costs_no_compilation():
    jax = pytest.importorskip("jax")
    traced = []

    def density(x):
        traced.append(x.shape)
        return normal(x)

    target = xps.Target(density)
    target.prepare(jax.numpy.zeros((4, 2)), xps.RWM(1.0).requires)
    assert traced == [(4, 2)]
