"""Derivatives of functions that torch recorded nothing of: an error, and not zeros."""

import re

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import GradientError
from xpsample.gradients import Via
from xpsample.kernels import HMC, MALA, ULA
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Parametric, Target

torch = pytest.importorskip("torch")

from xpsample_torch.backend import TorchAutodiff  # noqa: E402

X0 = torch.zeros((4, 2), dtype=torch.float64)
NO_GRAPH = re.escape("torch recorded nothing to differentiate")
TILTED = SRMC(MALA(0.1), alpha=1.0, tilt=Exact())


def log_density(x):
    return -0.5 * (x * x).sum(-1)


def by_numpy(x):
    return torch.asarray(-0.5 * (x.detach().numpy() ** 2).sum(-1))


def network():
    """A density by a network whose own parameters have a graph, which its positions have not."""
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    return lambda x: layer(x.detach())[..., 0]


def run(target, kernel=MALA(0.1), x0=X0, **settings):
    return xps.sample(target, kernel, x0, 3, seed=1, progress=False, **settings)


WITHOUT_GRAPH = {"no_grad": torch.no_grad()(log_density), "numpy": by_numpy, "network": network()}


@pytest.mark.parametrize("density", WITHOUT_GRAPH.values(), ids=WITHOUT_GRAPH)
@pytest.mark.parametrize("kernel", [ULA(0.1), MALA(0.1), HMC(0.1, 2)], ids=["ULA", "MALA", "HMC"])
def test_a_density_without_a_graph_is_no_constant(density, kernel):
    with pytest.raises(GradientError, match=NO_GRAPH):
        run(Target(density), kernel)


def test_other_ways_to_no_graph():
    """Differentiated for another library, a score, and a run in inference mode; one without gradients has its own."""
    unrecorded = torch.no_grad()(log_density)
    with pytest.raises(GradientError, match=NO_GRAPH):
        run(Target(unrecorded, gradient=Via("torch")), x0=np.zeros((4, 2)))
    with pytest.raises(GradientError, match=NO_GRAPH):
        run(Target(log_density, score=torch.no_grad()(lambda x: -x)), TILTED)
    with torch.inference_mode(), pytest.raises(GradientError, match=NO_GRAPH):
        run(Target(log_density))
    with torch.no_grad():
        assert torch.all(run(Target(log_density)).draws[-1] != 0)


def test_a_family_without_a_graph_in_its_parameters():
    def family(x, parameters):
        return log_density(x - parameters["mean"].detach())

    x = X0 + 1
    bound = Parametric(family, {"mean": torch.zeros(2, dtype=torch.float64)}).prepare(x, ULA(0.1).requires)
    with pytest.raises(GradientError, match=NO_GRAPH):
        bound.family.potential_gradient(bound.data, x, torch.ones(4, dtype=torch.float64))


def test_parameters_that_a_loss_does_not_use_have_no_slope():
    parameters = {"used": torch.ones(2), "unused": torch.ones(3)}
    _, gradient = TorchAutodiff().value_and_grad(lambda p: (p["used"] ** 2).sum())(parameters)
    assert torch.equal(gradient["used"], torch.full((2,), 2.0)) and torch.equal(gradient["unused"], torch.zeros(3))


def test_a_density_that_is_constant_says_so():
    """As the error advises."""
    zero = Target(lambda x: torch.zeros_like(x[..., 0]), score=torch.zeros_like, hvp=lambda x, v: torch.zeros_like(v))
    for kernel in (MALA(0.1), TILTED):
        assert torch.all(run(zero, kernel).draws[-1] != 0)


def test_a_linear_density_has_no_curvature():
    slope = torch.asarray([1.0, -2.0], dtype=torch.float64)
    bound = Target(lambda x: (x * slope).sum(-1)).prepare(X0, TILTED.requires)
    assert torch.equal(bound.score(X0), slope.expand(4, 2))
    assert torch.equal(bound.hvp(X0 + torch.inf, torch.ones_like(X0)), torch.zeros_like(X0))
