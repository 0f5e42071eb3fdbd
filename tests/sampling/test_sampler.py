"""A `Sampler` gives the draws of `sample`, and prepares nothing twice."""

import pickle

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.core.errors import CapabilityError, CheckpointError, LogDensityError, PositionError
from xpsample.zoo.ising import ising_couplings

X0 = np.random.default_rng(0).normal(size=(4, 3))
OTHER = X0 + 1.0
DATA = [{"y": np.random.default_rng(seed).normal(size=(20, 3)) + seed} for seed in range(3)]


class Counting:
    """Gaussian posterior of the mean of the rows; counts the calls of Python, which a compiler makes to trace."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x, data):
        self.calls += 1
        return -0.5 * ((data["y"] - x[..., None, :]) ** 2).sum(-1).sum(-1)

    def score(self, x, data):
        self.calls += 1
        return (data["y"] - x[..., None, :]).sum(-2)


def target(density=None, data=DATA[0]):
    density = density or Counting()
    return xps.Target(density, density.score, data=data)


KERNELS = {
    "given": xps.HMC(step_size=0.1, steps=3),
    "hmc": xps.HMC(),
    "nuts": xps.NUTS(),
    "srmc": xps.SRMC(xps.MALA(), alpha=1.0),
    "tempering": xps.ParallelTempering(xps.RWM(), betas=np.asarray([1.0, 0.5])),
    "smc": xps.TemperedSMC(xps.RWM(), ess=0.5, moves=2),
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_draws_are_those_of_sample(name, kernel):
    """With other seeds, positions and data, in any order, to the last bit."""
    library, chosen = open_library(name, "float64"), KERNELS[kernel]
    if kernel == "tempering":
        chosen = xps.ParallelTempering(xps.RWM(), betas=library.array(np.asarray([1.0, 0.5])))
    settings = {"progress": False, "warmup": 60 if kernel in ("hmc", "nuts", "srmc", "tempering") else None}
    x0, other = library.array(X0), library.array(OTHER)
    sampler = xps.Sampler(target(), chosen, x0, 30, **settings)
    calls = [(1, None, None), (2, None, None), (1, other, None), (3, other, DATA[1]), (4, None, DATA[2])]
    calls = calls[2:4] if name == "jax" and kernel not in ("given", "hmc") else [*calls, calls[0]]
    for seed, start, data in calls:
        begin = x0 if start is None else start
        once = xps.sample(target(data=data or DATA[0]), chosen, begin, 30, seed=seed, **settings)
        again = sampler(seed, start, data)
        np.testing.assert_array_equal(library.host(again.draws), library.host(once.draws))
        assert again.run_statistics.evaluations == once.run_statistics.evaluations


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
@pytest.mark.parametrize("kernel", ["given", "hmc", "nuts", "srmc"])
def test_on_jax_a_later_call_traces_nothing(kernel):
    library, density = open_library("jax", "float64"), Counting()
    settings = {"progress": False, "warmup": None if kernel == "given" else 60}
    sampler = xps.Sampler(target(density), KERNELS[kernel], library.array(X0), 30, **settings)
    sampler(1)
    traced = density.calls
    sampler(2)
    sampler(3, library.array(OTHER))
    sampler(4, data=DATA[1])
    assert density.calls == traced
    xps.sample(target(density), KERNELS[kernel], library.array(X0), 30, seed=1, **settings)
    assert density.calls > traced


def test_on_numpy_a_later_call_validates_nothing():
    density = Counting()
    sampler = xps.Sampler(target(density), KERNELS["given"], X0, 30, progress=False)
    sampler(1)
    before = density.calls
    sampler(2)
    again = density.calls - before
    xps.sample(target(density), KERNELS["given"], X0, 30, seed=2, progress=False)
    assert again < density.calls - before - again


@pytest.mark.parametrize(
    "made",
    [
        lambda y: target(data=y),
        lambda y: xps.Model(lambda p, data: -0.5 * (p.mu - data["y"].mean()) ** 2, data=y, mu=xps.Real()),
        lambda y: xps.Parametric(Counting(), y, score=Counting().score),
        lambda y: xps.Tempered(target(data=y), 0.5),
    ],
    ids=["target", "model", "parametric", "tempered"],
)
def test_targets_that_hold_data(made):
    """Also data and positions of another shape, which are prepared anew."""
    first = made(DATA[0])
    x0 = X0[:, :1] if isinstance(first, xps.Model) else X0
    sampler = xps.Sampler(first, xps.RWM(0.5), x0, 30, progress=False)
    for data, start in ((DATA[1], x0), ({"y": np.ones((7, 3))}, np.concatenate([x0, x0 + 1.0]))):
        once = xps.sample(made(data), xps.RWM(0.5), start, 30, seed=1, progress=False)
        np.testing.assert_array_equal(sampler(1, start, data).draws, once.draws)


@pytest.mark.parametrize("name", ["numpy", "jax"])
def test_what_is_not_finite_is_refused_at_each_call(name):
    library = open_library(name, "float64")
    sampler = xps.Sampler(target(), KERNELS["given"], library.array(X0), 30, progress=False)
    broken = np.where(np.arange(4)[:, None] == 2, np.nan, X0)
    with pytest.raises(PositionError, match="positions must be finite"):
        sampler(1, library.array(broken))
    with pytest.raises(LogDensityError, match="not finite"):
        sampler(1, data={"y": np.full((20, 3), np.nan)})


@pytest.mark.parametrize(
    ("space", "kernel", "good", "bad"),
    [
        (xps.Permutations(), xps.Swap(), [0, 1, 2], [1, 1, 1]),
        (xps.Spins(), xps.Gibbs(), [1, -1, 1], [1, 0.3, 1]),
        (xps.Integers(0, 5), xps.RWM(2.0), [0, 5, 1], [0, 9, 1]),
        (xps.Categorical((0, 1, 2)), xps.Sweep(), [0, 1, 2], [0, 1, 7]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_positions_off_the_space_are_refused_at_each_call(space, kernel, good, bad):
    flat = xps.Target(lambda x: 0.0 * x[..., 0], space=space)
    sampler = xps.Sampler(flat, kernel, np.asarray([good, good], dtype=float), 5, progress=False)
    with pytest.raises(PositionError):
        sampler(1, np.asarray([good, bad], dtype=float))


def test_couplings_that_a_kernel_cannot_serve_are_refused_at_each_call():
    ferromagnet = ising_couplings(np.ones((3, 3)) - np.eye(3))
    sampler = xps.Sampler(ferromagnet, xps.SwendsenWang(), np.ones((4, 3)), 5, progress=False)
    with pytest.raises(CapabilityError, match="couplings that make values equal"):
        sampler(1, data=ferromagnet.data | {"couplings": -ferromagnet.data["couplings"]})


def test_a_target_without_data_takes_none():
    plain = xps.Target(lambda x: -0.5 * (x**2).sum(-1))
    with pytest.raises(CapabilityError, match="made without data"):
        xps.Sampler(plain, xps.RWM(0.5), X0, 10, progress=False)(1, data=DATA[0])


def test_a_checkpoint_belongs_to_one_call(tmp_path):
    sampler = xps.Sampler(target(), KERNELS["given"], X0, 30, progress=False, checkpoint=tmp_path)
    draws = sampler(1).draws
    np.testing.assert_array_equal(sampler(1).draws, draws)
    for seed, data in ((2, None), (1, DATA[1])):
        with pytest.raises(CheckpointError, match="another run"):
            sampler(seed, data=data)


def test_it_can_be_sent_to_another_process():
    sampler = xps.Sampler(target(), xps.HMC(), X0, 30, progress=False)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sampler))(1).draws, sampler(1).draws)
