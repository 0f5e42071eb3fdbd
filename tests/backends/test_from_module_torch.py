"""Modules of torch: posteriors of their weights, and networks as functions of their parameters."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, CheckpointError, HyperparameterError, LogDensityError
from xpsample.optimize import SGD
from xpsample.particles.batches import RowBatches
from xpsample.sosmc import SOSMC, EnergyModel, LangevinMove
from xpsample.targets.parametric import Parametric

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.distributions import HalfNormal, MultivariateNormal, Normal  # noqa: E402
from torch.func import functional_call  # noqa: E402
from xpsample_torch import from_module  # noqa: E402

X = torch.linspace(-1, 1, 12)[:, None]
Y = torch.sin(3 * X[:, 0])
ONE = Normal(0.0, 1.0)


@pytest.fixture(autouse=True)
def own_generator():
    """Modules draw their weights from torch's global generator."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def make():
    return nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))


def log_likelihood(net, data):
    x, y = data
    return Normal(net(x)[..., 0], 0.3).log_prob(y).sum(-1)


def posterior(module, prior=ONE, **settings):
    return from_module.model(module, log_likelihood, prior=prior, data=(X, Y), **settings)


def test_density_is_that_of_each_chains_module():
    prior = {"*.bias": Normal(0.0, 3.0), "*": ONE}
    model, x0 = posterior(make(), prior), from_module.start(make, (2, 3), seed=0)
    density = model.target.log_density(model.position(x0), (X, Y))
    module = make()
    for chain in np.ndindex(2, 3):
        weights = {name: leaf[chain] for name, leaf in x0.items()}
        module.load_state_dict(weights)
        expected = Normal(module(X)[:, 0], 0.3).log_prob(Y).sum()
        expected += sum(Normal(0.0, 3.0 if "bias" in n else 1.0).log_prob(w).sum() for n, w in weights.items())
        assert torch.allclose(density[chain], expected, rtol=1e-5)


def test_names_start_and_predictions_of_a_hundred_chains(tmp_path):
    model, x0 = posterior(make(), dims={"0.bias": "unit"}), from_module.start(make, 100, seed=0)
    trace = xps.sample(model, xps.HMC(0.01, steps=3), x0, 5, seed=1, progress=False)
    assert trace.parameters == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert trace["0.weight"].shape == (5, 100, 4, 1)
    found = trace.map(from_module.predict(make(), X))
    assert found.shape == (5, 100, 12, 1)
    weights = {name: trace[name][3, 7] for name in trace.parameters}
    assert torch.allclose(found[3, 7], functional_call(make(), weights, X), rtol=1e-5)
    trace.save(tmp_path / "trace.npz")
    loaded = xps.load(tmp_path / "trace.npz", like=X)
    assert torch.equal(loaded.map(from_module.predict(make(), X)), found)
    with pytest.raises(HyperparameterError, match=r"have the parameters \['_0', .*; expected \['weight', 'bias'\]"):
        trace.map(from_module.predict(nn.Linear(1, 1), X))


def test_start_draws_the_modules_own_initialisation_and_leaves_the_generator_alone():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    x0 = from_module.start(make, 20, seed=1)
    assert torch.equal(torch.randn(3), expected)
    assert 0.4 < x0["2.weight"].abs().max() <= 0.5  # uniform up to 1 / sqrt(4)
    assert len(torch.unique(x0["2.weight"])) == 80
    assert torch.equal(x0["0.bias"], from_module.start(make, 20, seed=1)["0.bias"])


def test_a_checkpoint_knows_its_module(tmp_path):
    kernel, x0 = xps.HMC(0.01, steps=3), from_module.start(make, 3, seed=0)

    def run(draws, module, **settings):
        return xps.sample(posterior(module), kernel, x0, draws, seed=1, progress=False, **settings)

    run(3, make(), checkpoint=tmp_path)
    assert torch.equal(run(8, make(), checkpoint=tmp_path).draws, run(8, make()).draws)
    other = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))
    with pytest.raises(CheckpointError, match="another run"):
        run(9, other, checkpoint=tmp_path)


def test_shared_and_frozen_parameters_and_buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.fixed = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
            self.second.weight = self.first.weight
            self.fixed.requires_grad_(False)
            self.register_buffer("shift", torch.tensor([1.0, 2.0]))

        def forward(self, x):
            return self.fixed(self.second(torch.tanh(self.first(x + self.shift))))

    module, x = Net(), torch.ones(3, 2)
    network, start = from_module.network(module), from_module.parameters(module)
    assert sorted(start) == ["first.bias", "first.weight", "second.bias"]
    changed = {name: 2 * leaf for name, leaf in start.items()}
    found = network(x, changed)
    with torch.no_grad():
        for leaf in module.parameters():
            leaf.mul_(2.0 if leaf.requires_grad else 1.0)
    assert torch.equal(found, module(x))
    with torch.no_grad():
        module.fixed.weight.zero_()  # the network has a copy of its own
    assert torch.equal(network(x, changed), found)


def test_priors_say_where_parameters_are():
    prior = {"0.weight": HalfNormal(1.0), "0.bias": MultivariateNormal(torch.zeros(4), torch.eye(4)), "*": ONE}
    model = posterior(make(), prior)
    x = model.start(like=X, chains=5, seed=0)
    values = model.values(x)
    assert bool((values[0] > 0).all())
    expected = HalfNormal(1.0).log_prob(values[0]).sum((-1, -2)) + prior["0.bias"].log_prob(values[1])
    expected += sum(ONE.log_prob(value).reshape(5, -1).sum(-1) for value in values[2:])
    expected += x[:, :4].sum(-1)  # the Jacobian of exp
    expected += log_likelihood(
        lambda x: torch.stack([functional_call(make(), one(values, i), x) for i in range(5)]), (X, Y)
    )
    assert torch.allclose(model.target.log_density(x, (X, Y)), expected, rtol=1e-4)


def one(values, i):
    return dict(zip(("0.weight", "0.bias", "2.weight", "2.bias"), (value[i] for value in values), strict=True))


def test_runs_have_networks_of_their_own():
    """Particles (*runs, particles, dim) with parameters (*runs, 1, ...), against each run by itself."""
    energy = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))
    network = from_module.network(energy)
    starts = from_module.start(lambda: nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1)), (2, 1), seed=0)
    rows = torch.tensor(np.random.default_rng(0).normal(size=(50, 2)), dtype=torch.float32)
    particles = torch.stack([rows[:20], rows[20:40]])

    def log_density(x, parameters):
        return -network(x, parameters)[..., 0] - 0.5 * (x * x).sum(-1)

    both = log_density(particles, starts)
    for i in range(2):
        alone = log_density(particles[i], {name: leaf[i, 0] for name, leaf in starts.items()})
        assert torch.allclose(both[i], alone, rtol=1e-5)
    kernel = SOSMC(EnergyModel(RowBatches(rows)), LangevinMove(0.01), SGD(0.01))
    trace = xps.sample(Parametric(log_density, starts), kernel, particles, 3, seed=1, progress=False)
    assert tree.map(lambda leaf: tuple(leaf.shape), trace.state.parameters) == {
        name: tuple(leaf.shape) for name, leaf in starts.items()
    }
    with pytest.raises(
        HyperparameterError, match=r"must be of one network, or of runs.*0\.weight has shape \(2, 8, 2\)"
    ):
        network(rows, {name: leaf[:, 0] for name, leaf in starts.items()})
    with pytest.raises(HyperparameterError, match=r"missing, or unknown: \['0\.bias'\]"):
        network(rows, {name: leaf for name, leaf in starts.items() if name != "0.bias"})


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.layer(x)


class Noisy(Counting):
    def forward(self, x):
        return self.layer(x) + torch.randn(1)


def parameter_called_data():
    module = nn.Module()
    module.data = nn.Parameter(torch.zeros(2))
    return module


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(1, 2), nn.Dropout(0.1)), r"1 \(Dropout\) is in training mode"),
        (nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2)), r"1 \(BatchNorm1d\) is in training mode"),
        (nn.MultiheadAttention(2, 1, dropout=0.1), "MultiheadAttention"),
        (nn.LazyLinear(3), "weight has no shape yet"),
        (nn.Linear(2, 2, dtype=torch.complex64), "weight is complex"),
        (nn.Tanh(), "no parameter that needs a gradient"),
        (parameter_called_data(), "cannot be called 'data'"),
    ],
)
def test_modules_that_are_refused(module, message):
    with pytest.raises(CapabilityError, match=message):
        posterior(module)


def test_in_evaluation_mode_they_are_not():
    model = posterior(nn.Sequential(nn.Linear(1, 3), nn.BatchNorm1d(3), nn.Dropout(0.1), nn.Linear(3, 1)).eval())
    assert model.start(like=X, chains=3, seed=0).shape == (3, 3 + 3 + 6 + 4)


def test_modules_that_are_no_functions():
    with pytest.raises(CapabilityError, match="changes its buffer count"):
        posterior(Counting()).start(like=X, chains=3, seed=0)
    with pytest.raises(LogDensityError, match="random"):
        posterior(Noisy()).start(like=X, chains=3, seed=0)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"*.bias": ONE}, "0.weight has no prior"),
        (1.0, "the prior of 0.weight is a distribution"),
        (Normal(torch.zeros(3), 1.0), r"the prior of 0.weight has shape \(3,\), which does not broadcast to \(4, 1\)"),
    ],
)
def test_bad_priors(prior, message):
    with pytest.raises(HyperparameterError, match=message):
        posterior(make(), prior)


def test_bad_modules_and_bad_starts():
    module = make()
    with pytest.raises(HyperparameterError, match=r"module must be a torch\.nn\.Module"):
        from_module.network(make)
    with pytest.raises(HyperparameterError, match="make must make a module"):
        from_module.start(module, 3, seed=0)
    with pytest.raises(HyperparameterError, match="make gives the same module"):
        from_module.start(lambda: module, 3, seed=0)
