"""Models of PyMC as models of JAX arrays, which PyTensor writes in JAX."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xpsample.interop.pymc import PymcGraph, pymc_graph, pymc_quantities
from xpsample.targets.model import Model
from xpsample.targets.target import Target

Array = Any
"""An array of this library."""


def model(pymc_model: Any) -> Model:
    """A PyMC model as a `Model` of JAX arrays.

    As `xpsample.interop.pymc_model`, with the log density in JAX: a run is one compiled loop. The gradient is JAX's.

    Parameters
    ----------
    pymc_model : pymc.Model

    Returns
    -------
    Model

    Raises
    ------
    CapabilityError, ImportError
        As `pymc_model` does.
    NotImplementedError
        For an operation that PyTensor cannot write in JAX.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import pymc as pm  # doctest: +SKIP
    >>> import xpsample as xps
    >>> from xpsample_jax import from_pymc
    >>> with pm.Model() as scale:  # doctest: +SKIP
    ...     sigma = pm.HalfNormal("sigma", 2.0)
    ...     pm.Normal("y", 0.0, sigma, observed=[0.5, -1.5, 1.0])
    >>> model = from_pymc.model(scale)  # doctest: +SKIP
    >>> x0 = model.start(like=jnp.zeros(0), chains=4, seed=0)  # doctest: +SKIP
    >>> xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)["sigma"].shape  # doctest: +SKIP
    (50, 4)
    """
    graph = pymc_graph(pymc_model)
    outputs = _in_jax(graph, [graph.log_density])

    def log_density(x: Array) -> Array:
        return jnp.reshape(jnp.asarray(outputs(x)[0], x.dtype), x.shape[:-1])

    return Model.of_target(Target(log_density, space=graph.space))


def generated(pymc_model: Any) -> Callable[[Any], dict[str, Array]]:
    """A function for `Trace.map`, as `xpsample.interop.pymc_generated`, of JAX arrays."""
    graph, quantities = pymc_quantities(pymc_model)
    outputs = _in_jax(graph, list(quantities.values()))

    def at(p: Any) -> dict[str, Array]:
        x = graph.coordinates(jnp, p)
        found = zip(quantities, outputs(x), strict=True)
        return {name: jnp.reshape(value, (*x.shape[:-1], *value.shape[1:])) for name, value in found}

    return at


def _in_jax(graph: PymcGraph, outputs: list[Any]) -> Callable[[Array], list[Array]]:
    """A function of positions (*chains, dim) that gives outputs (rows, *shape), the chains in one axis."""
    from pymc.sampling.jax import get_jaxified_graph

    one = get_jaxified_graph(graph.values, outputs)

    def of(x: Array) -> list[Array]:
        with warnings.catch_warnings():
            # PyTensor's graph has 64-bit numbers throughout, and JAX says so where its 64-bit types are off.
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return jax.vmap(one)(*graph.split(jnp.reshape(x, (-1, x.shape[-1]))))

    return of
