"""The same network as a module of torch, Equinox and Flax NNX, and what takes it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

X = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
Y = np.sin(3 * X[:, 0])
ROWS = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
SCALE = 0.3


class Kind(NamedTuple):
    """A library of modules."""

    adaptor: Any
    array: Callable
    distributions: Any
    maker: Callable
    """What `start` makes modules by, of (inputs, outputs)."""
    make: Callable
    other: Callable
    """A module with the same parameters and another activation."""
    call: Callable
    """The outputs of a module with given weights, by the library's own means, as NumPy's."""
    names: tuple[str, ...]
    weight: str
    """A matrix of 4 numbers."""

    def posterior(self, module, prior=None, **settings):
        normal = self.distributions.Normal

        def log_likelihood(net, data):
            return normal(net(data[0])[..., 0], SCALE).log_prob(data[1]).sum(-1)

        prior = normal(0.0, 1.0) if prior is None else prior
        data = self.array(X), self.array(Y)
        return self.adaptor.model(module, log_likelihood, prior=prior, data=data, **settings)


def torch_modules():
    torch = pytest.importorskip("torch")
    nn = torch.nn

    def make(inputs=1, outputs=1, activation=nn.Tanh):
        return nn.Sequential(nn.Linear(inputs, 4), activation(), nn.Linear(4, outputs))

    def call(weights, x):
        return torch.func.functional_call(make(x.shape[-1]), weights, torch.tensor(x)).detach().numpy()

    return Kind(
        adaptor=import_module("xpsample_torch.from_module"),
        array=torch.tensor,
        distributions=torch.distributions,
        maker=lambda *sizes: lambda: make(*sizes),
        make=make,
        other=lambda: make(activation=nn.ReLU),
        call=call,
        names=("0.weight", "0.bias", "2.weight", "2.bias"),
        weight="0.weight",
    )


def equinox_modules():
    eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")

    def mlp(key, inputs=1, outputs=1, activation=jax.numpy.tanh):
        settings = {"depth": 1, "activation": activation, "key": key, "dtype": jax.numpy.float32}
        return eqx.nn.MLP(inputs, outputs, 4, **settings)

    names = ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias")
    return _of_jax(mlp, lambda module, x: jax.vmap(module)(x), names, "layers.0.weight")


def nnx_modules():
    jax, nnx = pytest.importorskip("jax"), pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, inputs, outputs, activation, rngs):
            self.first = nnx.Linear(inputs, 4, rngs=rngs)
            self.last = nnx.List([nnx.Linear(4, outputs, rngs=rngs)])
            self.drop = nnx.Dropout(0.1, deterministic=True, rngs=rngs)
            self.activation = activation

        def __call__(self, x):
            return self.last[0](self.drop(self.activation(self.first(x))))

    def make(key, inputs=1, outputs=1, activation=jax.numpy.tanh):
        return Net(inputs, outputs, activation, nnx.Rngs(key))

    names = ("first.bias", "first.kernel", "last.0.bias", "last.0.kernel")
    return _of_jax(make, lambda module, x: module(x), names, "last.0.kernel")


def _of_jax(make, apply, names, weight):
    import jax

    pytest.importorskip("numpyro")
    adaptor, key = import_module("xpsample_jax.from_module"), jax.random.key(0)

    def call(weights, x):
        return np.asarray(apply(adaptor.network(make(key, x.shape[-1])).module(weights), jax.numpy.asarray(x)))

    return Kind(
        adaptor=adaptor,
        array=jax.numpy.asarray,
        distributions=import_module("numpyro.distributions"),
        maker=lambda *sizes: lambda key: make(key, *sizes),
        make=lambda *sizes: make(key, *sizes),
        other=lambda: make(key, activation=jax.nn.relu),
        call=call,
        names=names,
        weight=weight,
    )


KINDS = {"torch": torch_modules, "equinox": equinox_modules, "nnx": nnx_modules}
