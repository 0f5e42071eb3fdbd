"""Modules of torch: starts, shared parameters and buffers, and what is refused."""

import pytest

from tests.backends.modules_support import torch_modules
from xpsample.core.errors import CapabilityError, HyperparameterError, LogDensityError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.distributions import Normal  # noqa: E402
from xpsample_torch import from_module  # noqa: E402

TORCH = torch_modules()
X = torch.ones(3, 1)


@pytest.fixture(autouse=True)
def own_generator():
    """Modules draw their weights from torch's global generator."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_start_draws_the_modules_own_initialisation_and_leaves_the_generator_alone():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    x0 = from_module.start(TORCH.make, 20, seed=1)
    assert torch.equal(torch.randn(3), expected)
    assert 0.4 < x0["2.weight"].abs().max() <= 0.5  # uniform up to 1 / sqrt(4)
    assert len(torch.unique(x0["2.weight"])) == 80
    assert torch.equal(x0["0.bias"], from_module.start(TORCH.make, 20, seed=1)["0.bias"])


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
        TORCH.posterior(module)


def test_modules_that_are_no_functions_or_in_evaluation_mode():
    impure = (Counting(), CapabilityError, "changes its buffer count"), (Noisy(), LogDensityError, "random")
    for module, error, message in impure:
        with pytest.raises(error, match=message):
            TORCH.posterior(module).start(like=torch.zeros(0), chains=3, seed=0)
    layers = nn.Linear(1, 3), nn.BatchNorm1d(3), nn.Dropout(0.1), nn.Linear(3, 1)
    model = TORCH.posterior(nn.Sequential(*layers).eval())
    assert model.start(like=torch.zeros(0), chains=3, seed=0).shape == (3, 3 + 3 + 6 + 4)


def values_of(module):
    model = TORCH.posterior(module)
    return model.values(model.start(like=X, chains=3, seed=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda module: TORCH.posterior(module, {"*.bias": Normal(0.0, 1.0)}), "0.weight has no prior"),
        (lambda module: TORCH.posterior(module, 1.0), "the prior of 0.weight is a distribution"),
        (
            lambda module: TORCH.posterior(module, Normal(torch.zeros(3), 1.0)),
            r"the prior of 0.weight has shape \(3,\), which does not broadcast to \(4, 1\)",
        ),
        (lambda module: from_module.network(TORCH.make), r"module must be a torch\.nn\.Module"),
        (lambda module: from_module.start(module, 3, seed=0), "make must make a module"),
        (lambda module: from_module.start(lambda: module, 3, seed=0), "make gives the same module"),
        (
            lambda module: from_module.predict(nn.Linear(1, 1), X)(values_of(module)),
            r"have the parameters \['_0', .*; expected \['weight', 'bias'\]",
        ),
    ],
)
def test_bad_modules_and_bad_starts(call, message):
    with pytest.raises(HyperparameterError, match=message):
        call(TORCH.make())
