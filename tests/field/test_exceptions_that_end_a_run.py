"""An exception of a likelihood is a rejection of that chain where the user asks, and in models of torch.distributions.

These check their arguments, for all chains at once: one diverging proposal would end the run of all.
"""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import DivergenceWarning, FunctionError, LogDensityError
from xpsample.targets.batched import Lifted, Rejection


def fails_on_the_right(x):
    """Of one position: a normal on the left half of the line."""
    if float(x[0]) > 0:
        raise ValueError("to the right")
    return -0.5 * (x * x).sum()


def test_the_error_says_how_to_reject():
    with pytest.raises(FunctionError, match=r"to the right|batched\(f, rejects=ValueError\)") as caught:
        xps.sample(xps.Target(xps.batched(fails_on_the_right)), xps.RWM(1.0), -np.ones((4, 1)), 50, seed=1)
    assert "batched(f, rejects=ValueError)" in str(caught.value) and "to the right" in str(caught.value)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_chain_that_raises_is_rejected_and_no_other(name):
    """The half normal has mean -0.80 and the chains 4,000 draws each: 0.1 is over ten standard errors."""
    lib = pytest.importorskip(name)
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ValueError), constrained=True)
    trace = xps.sample(target, xps.RWM(2.0), lib.asarray(-np.ones((8, 1))), 1000, seed=1, progress=False)
    draws = np.asarray(trace.draws)
    assert draws.max() <= 0 and abs(draws.mean() + np.sqrt(2 / np.pi)) < 0.1
    assert np.sum(np.asarray(trace.run_statistics.diverged)) == 0


@pytest.mark.parametrize("of", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_what_rejects_can_be_sent_to_workers(of):
    lifted = of(xps.batched(fails_on_the_right, rejects=(ValueError, ArithmeticError)))
    np.testing.assert_array_equal(lifted(np.asarray([[-1.0], [1.0]])), [-0.5, -np.inf])


# ---- how many raise --------------------------------------------------------------------------------------------------


def counted(draws=300, **settings):
    """Of a run whose target does not say that a density of 0 is meant, so that each rejection is a divergence, too."""
    executor = settings.pop("workers", None)
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ValueError, executor=executor))
    settings = {"seed": 1, "progress": False} | settings
    return xps.sample(target, xps.RWM(2.0), -np.ones((4, 1)), draws, **settings)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("settings", [{}, {"burn_in": 50}, {"shards": 2}, {"thinning": 3}], ids=str)
def test_those_that_raise_are_counted(settings):
    trace = counted(**settings)
    diverged = np.sum(trace.run_statistics.diverged) / (4 * trace.run_statistics.steps)
    assert diverged > 0.2 and trace.run_statistics.evaluations["raised"] == pytest.approx(diverged, rel=1e-12)
    assert f"{diverged:.4g} raised" in str(trace.summary())


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_those_that_raise_in_workers_are_counted():
    with ThreadPoolExecutor(2) as workers:
        trace = counted(workers=workers)
    assert trace.run_statistics.evaluations == counted().run_statistics.evaluations
    of_a_process = pickle.loads(pickle.dumps(Lifted(fails_on_the_right, (ValueError,)).of_one(np.ones(1))))
    assert isinstance(of_a_process, Rejection) and of_a_process == -np.inf


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_the_count_of_a_resumed_run_is_that_of_a_whole_one(tmp_path):
    counted(100, checkpoint=tmp_path)
    resumed, again = counted(checkpoint=tmp_path), counted(checkpoint=tmp_path)
    whole = counted().run_statistics.evaluations
    assert resumed.run_statistics.evaluations == again.run_statistics.evaluations == whole
    assert xps.load(tmp_path).run_statistics.evaluations == whole


def test_densities_of_0_and_runs_without_rejections_have_no_count():
    target = xps.Target(xps.batched(lambda x: -np.inf if x[0] > 0 else -0.5 * (x @ x), rejects=ValueError))
    with pytest.warns(DivergenceWarning):
        trace = xps.sample(target, xps.RWM(2.0), -np.ones((4, 1)), 100, seed=1, progress=False)
    assert np.sum(trace.run_statistics.diverged) > 0 and "raised" not in trace.run_statistics.evaluations


# ----------------------------------------------------------------------------------------------------------------------


def test_other_exceptions_and_those_of_the_start_are_errors():
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ArithmeticError))
    with pytest.raises(FunctionError, match="to the right"):
        xps.sample(target, xps.RWM(1.0), -np.ones((4, 1)), 50, seed=1)
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ValueError))
    with pytest.raises(LogDensityError, match=r"failed at the start positions.*to the right"):
        xps.sample(target, xps.RWM(1.0), np.ones((4, 1)), 5, seed=1)


# ---- torch.distributions ---------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile has switched it off, once it ran
    return torch


def poisson_model(torch):
    from torch.distributions import Normal, Poisson
    from xpsample_torch import from_distributions

    x = torch.linspace(-1, 1, 30)
    counts = torch.round(torch.exp(1 + 0.5 * x))

    def log_likelihood(p, data):
        x, counts = data
        return Poisson(torch.exp(p.a[..., None] + p.b[..., None] * x)).log_prob(counts).sum(-1)

    return from_distributions.model(log_likelihood, data=(x, counts), a=Normal(0.0, 10.0), b=Normal(0.0, 10.0))


def scale_model(torch):
    from torch.distributions import Normal
    from xpsample_torch import from_module

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            self.log_scale = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return self.body(x)[..., 0], self.log_scale

    x = torch.linspace(-1, 1, 20)[:, None]

    def log_likelihood(net, data):
        x, y = data
        mean, log_scale = net(x)
        return Normal(mean, torch.exp(log_scale)[..., None]).log_prob(y).sum(-1)

    with torch.random.fork_rng():
        return from_module.model(Net(), log_likelihood, prior=Normal(0.0, 1.0), data=(x, torch.sin(3 * x[:, 0])))


MODELS = {"Poisson": poisson_model, "a network with a scale": scale_model}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_chains_far_out_are_rejected_and_no_other(make, torch):
    """The density of each is that of it alone, and -inf or nan where it raises."""
    target = make(torch).target
    x = torch.asarray(np.random.default_rng(0).normal(size=(7, target.space.dim)).astype("float32"))
    x[2], x[5] = 200.0, torch.nan
    found = target.log_density(x, target.data)
    good = [0, 1, 3, 4, 6]
    alone = torch.stack([target.log_density(x[i : i + 1], target.data)[0] for i in good])
    assert not torch.isfinite(found[[2, 5]]).any()
    torch.testing.assert_close(found[good], alone, rtol=1e-5, atol=1e-4)
    grouped = target.log_density(torch.stack([x, x]), target.data)
    torch.testing.assert_close(grouped[1][good], alone, rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_steps_that_are_too_large_end_no_run(make, torch):
    model = make(torch)
    x0 = model.start(like=torch.zeros(0), chains=3, seed=0, scale=0.1)
    trace = xps.sample(model, xps.HMC(30.0, 3), x0, 5, seed=1, progress=False)
    diverged = float(np.sum(np.asarray(trace.run_statistics.diverged)))
    assert torch.isfinite(trace.draws).all() and diverged > 0
    assert trace.run_statistics.evaluations["raised"] * 15 >= diverged  # a trajectory evaluates several positions


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_they_run_while_they_are_tuned(make, torch, seed):
    model = make(torch)
    x0 = model.start(like=torch.zeros(0), chains=4, seed=seed)
    trace = xps.sample(model, xps.HMC(), x0, 5, seed=seed, warmup=40, progress=False)
    assert torch.isfinite(trace.draws).all()


def test_data_that_no_distribution_takes_are_an_error_at_the_start(torch):
    from torch.distributions import Normal, Poisson
    from xpsample_torch import from_distributions

    def log_likelihood(p, counts):
        return Poisson(torch.exp(p.a[..., None])).log_prob(counts).sum(-1)

    model = from_distributions.model(log_likelihood, data=torch.asarray([1.0, -2.0]), a=Normal(0.0, 1.0))
    for call in (
        lambda: model.start(like=torch.zeros(0), chains=3, seed=0),
        lambda: xps.sample(model, xps.RWM(1.0), torch.zeros((3, 1)), 5, seed=1),
    ):
        with pytest.raises(LogDensityError, match=r"failed at the start positions.*ValueError"):
            call()
