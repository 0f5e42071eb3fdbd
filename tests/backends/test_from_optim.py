"""Optimisers of torch as pure functions: torch's own steps, and nothing that a checkpoint would lose."""

from functools import partial

import numpy as np
import pytest

from xpsample.core import tree
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.optimize import Averaged
from xpsample.sampling.checkpoint import Checkpoint
from xpsample.score_mh import Denoising, fit, init_score_network, training
from xpsample.score_mh.saved_training import SavedTraining

torch = pytest.importorskip("torch")

from torch.optim import lr_scheduler as schedulers  # noqa: E402
from xpsample_torch import from_optim  # noqa: E402

START = {
    "a": torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64),
    "b": [torch.tensor([[0.3, 4.0]], dtype=torch.float64)],
}
OPTIMIZERS = ("SGD", "Adam", "AdamW", "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop")
SCHEDULERS = {
    "none": None,
    "cosine": partial(schedulers.CosineAnnealingLR, T_max=10),
    "cycle": partial(schedulers.OneCycleLR, max_lr=0.01, total_steps=30),
    "chain": lambda optimizer: schedulers.SequentialLR(
        optimizer, [schedulers.ConstantLR(optimizer, total_iters=3), schedulers.ExponentialLR(optimizer, 0.9)], [3]
    ),
    "steps": partial(schedulers.MultiStepLR, milestones=[3, 5]),
    "function": partial(schedulers.LambdaLR, lr_lambda=lambda step: 0.9**step),
}
DATA = torch.tensor(np.random.default_rng(0).normal(size=(40, 2)))


def gradient(leaf):
    return 3.0 * leaf + leaf**3


def in_place(factory, scheduler):
    """The parameters after 25 steps of torch's own loop."""
    leaves = [leaf.clone() for leaf in tree.leaves(START)]
    optimizer = factory(leaves)
    schedule = None if scheduler is None else scheduler(optimizer)
    for _ in range(25):
        for leaf in leaves:
            leaf.grad = gradient(leaf)
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return leaves


def pure(factory, scheduler):
    optimizer = from_optim.optimizer(factory, scheduler)
    parameters, state = START, optimizer.init(START)
    for _ in range(25):
        updates, state = optimizer.update(tree.map(gradient, parameters), state, parameters)
        parameters = tree.map(lambda p, u: p + u, parameters, updates)
    return tree.leaves(parameters)


CASES = [
    (name, scheduler)
    for name in OPTIMIZERS
    for scheduler in SCHEDULERS
    if scheduler != "cycle" or name in ("SGD", "Adam", "AdamW")  # it moves a momentum, too
]


@pytest.mark.parametrize(("name", "scheduler"), CASES)
def test_the_steps_are_those_of_torch(name, scheduler):
    # Momentum with dampening: the first step is another one than from a velocity of zero.
    momentum = {"momentum": 0.8, "dampening": 0.1} if name == "SGD" else {}
    factory = partial(getattr(torch.optim, name), lr=0.01, **momentum)
    for own, theirs in zip(pure(factory, SCHEDULERS[scheduler]), in_place(factory, SCHEDULERS[scheduler]), strict=True):
        assert torch.allclose(own, theirs, rtol=1e-13, atol=1e-14)


def test_groups_by_name():
    def factory(named):
        biases = [leaf for name, leaf in named if "b" in name]
        return torch.optim.SGD([{"params": biases, "lr": 0.0}, {"params": [named[0][1]]}], lr=0.1)

    optimizer = from_optim.optimizer(factory)
    step, _ = optimizer.update(tree.map(gradient, START), optimizer.init(START), START)
    assert torch.all(step["b"][0] == 0) and torch.all(step["a"] != 0)


class Killed(Exception):
    """In the place of a process that dies."""


def test_a_killed_training_goes_on_bit_for_bit(tmp_path, monkeypatch):
    optimizer = Averaged(from_optim.optimizer(partial(torch.optim.Adam, lr=0.01), SCHEDULERS["cosine"]), 0.9)

    def train(**settings):
        start = init_score_network(2, 4, seed=0)
        return fit(Denoising(0.5), start, DATA, epochs=6, batch_size=10, optimizer=optimizer, seed=1, **settings)

    save = SavedTraining.save

    def save_and_die(self, *args):
        save(self, *args)
        if self.step == 3:
            raise Killed

    monkeypatch.setattr(training, "SECONDS", 1e-9)
    monkeypatch.setattr(SavedTraining, "save", save_and_die)
    with pytest.raises(Killed):
        train(checkpoint=Checkpoint(tmp_path, every=0))
    monkeypatch.setattr(SavedTraining, "save", save)
    resumed, whole = train(checkpoint=tmp_path), train()
    np.testing.assert_array_equal(resumed.losses, whole.losses)
    for own, other in zip(tree.leaves(resumed.parameters), tree.leaves(whole.parameters), strict=True):
        assert torch.equal(own, other)


class Growing(torch.optim.SGD):
    """Keeps one more tensor with every step."""

    def step(self):
        super().step()
        state = self.state[self.param_groups[0]["params"][0]]
        state[f"step{len(state)}"] = torch.zeros(())


class Listing(torch.optim.SGD):
    def step(self):
        super().step()
        self.state[self.param_groups[0]["params"][0]]["history"] = [torch.zeros(())]


def trained(optimizer, rows=DATA):
    return fit(Denoising(0.5), init_score_network(2, 4, seed=0), rows, epochs=1, optimizer=optimizer, seed=0)


@pytest.mark.parametrize(
    ("factory", "scheduler", "error", "message"),
    [
        (torch.optim.Adam, schedulers.ReduceLROnPlateau, HyperparameterError, "ReduceLROnPlateau needs a loss"),
        (torch.optim.LBFGS, None, FunctionError, "closure"),
        (Growing, None, HyperparameterError, "grows with every step"),
        (Listing, None, HyperparameterError, "keeps history"),
        (lambda named: named, None, HyperparameterError, "must return an optimizer of torch"),
        (torch.optim.Adam([torch.zeros(1)]), None, HyperparameterError, "factory makes it, such as torch"),
        (torch.optim.Adam, 3, HyperparameterError, "scheduler makes it"),
    ],
    ids=["plateau", "LBFGS", "growing", "list", "no optimizer", "no factory", "no scheduler"],
)
def test_optimisers_that_are_no_function_of_their_state(factory, scheduler, error, message):
    with pytest.raises(error, match=message):
        trained(from_optim.optimizer(factory, scheduler))


def test_arrays_of_other_libraries_are_refused():
    with pytest.raises(HyperparameterError, match="optimizers of torch move torch tensors; 0/weight is an array"):
        trained(from_optim.optimizer(torch.optim.Adam), DATA.numpy())
