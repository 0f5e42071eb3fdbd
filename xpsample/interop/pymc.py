"""Models of PyMC, by their log densities as PyTensor compiles them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from array_api_compat import numpy as numpy_xp

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import BackendError, CapabilityError, HyperparameterError
from xpsample.interop.constraints import between
from xpsample.spaces.named import Named, named
from xpsample.spaces.simplexes import Ordered, PositiveOrdered, Simplex
from xpsample.spaces.space import Constrained, Real
from xpsample.targets.model import Model
from xpsample.targets.target import Target

FAR = 1e3  # A coordinate at which an exponential or logistic map has reached its bound

PROBES = 4  # Random positions at which a space's map and PyMC's are compared, besides two far ones


def pymc_model(model: Any) -> Model:
    """A PyMC model as a `Model` of NumPy arrays.

    Chains move in the coordinates of PyMC's own value variables, by PyMC's log density and gradient, which PyTensor
    compiles for all chains at once. Potentials, observed data and missing data are in the log density. Values of
    `pymc.Data` are taken as they are now.

    Parameters
    ----------
    model : pymc.Model

    Returns
    -------
    Model
        Model of the free random variables, with dims and coords. A variable whose transform no space has keeps its
        coordinates as values, under PyMC's own name of them, such as ``w_simplex__``; `pymc_generated` gives ``w``.

    Raises
    ------
    CapabilityError
        For a discrete free variable, for an angle with PyMC's own transform, which has no proper density, and for a
        log density that draws random numbers, as minibatches do.
    ImportError
        If PyMC is not installed.

    Notes
    -----
    The dtype is PyTensor's ``floatX``, float64 unless you change it. If the parameters of a
    distribution are out of range, the log density is -inf for that chain. A model with an operation that has no
    gradient has no score: use `RWM` or another kernel that needs none.

    See Also
    --------
    pymc_generated : deterministic variables at draws.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm  # doctest: +SKIP
    >>> import xpsample as xps
    >>> from xpsample.interop import pymc_model
    >>> with pm.Model() as scale:  # doctest: +SKIP
    ...     sigma = pm.HalfNormal("sigma", 2.0)
    ...     pm.Normal("y", 0.0, sigma, observed=[0.5, -1.5, 1.0])
    >>> model = pymc_model(scale)  # doctest: +SKIP
    >>> x0 = model.start(like=np.zeros(0), chains=4, seed=0)  # doctest: +SKIP
    >>> xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)["sigma"].shape  # doctest: +SKIP
    (50, 4)
    """
    graph = pymc_graph(model)
    gradient = graph.gradient()

    @cache
    def compiled(outputs: int) -> Callable[[Array], list[np.ndarray]]:
        return graph.compile([graph.log_density, *(gradient or ())][:outputs])

    def log_density(x: Array) -> Array:
        return _like(x, compiled(1)(x)[0], x.shape[:-1])

    def log_density_and_score(x: Array) -> tuple[Array, Array]:
        density, *parts = compiled(1 + len(graph.values))(x)
        score = np.concatenate([part.reshape(len(density), -1) for part in parts], axis=-1)
        return _like(x, density, x.shape[:-1]), _like(x, score, x.shape)

    if gradient is None:
        return Model.of_target(Target(log_density, space=graph.space))
    return Model.of_target(
        Target(
            log_density,
            lambda x: log_density_and_score(x)[1],
            log_density_and_score=log_density_and_score,
            space=graph.space,
        )
    )


def pymc_generated(model: Any) -> Callable[[Any], dict[str, np.ndarray]]:
    """A function for `Trace.map`: a PyMC model's deterministic variables at draws, by name.

    Free variables that the trace has under another name, such as ``w_simplex__``, are among them, as ``w``.

    Parameters
    ----------
    model : pymc.Model
        As for `pymc_model`.

    Returns
    -------
    callable
        The parameters of the draws to a dict of arrays ``(draw, *chains, *shape)``.

    Examples
    --------
    >>> import pymc as pm  # doctest: +SKIP
    >>> from xpsample.interop import pymc_generated
    >>> with pm.Model() as doubled:  # doctest: +SKIP
    ...     x = pm.Normal("x")
    ...     pm.Deterministic("twice", 2 * x)
    >>> trace.map(pymc_generated(doubled))["twice"].shape  # doctest: +SKIP
    (50, 4)
    """
    graph, quantities = pymc_quantities(model)
    compiled = graph.compile(list(quantities.values()))

    def at(p: Any) -> dict[str, np.ndarray]:
        x = graph.coordinates(numpy_xp, p)
        found = zip(quantities, compiled(x), strict=True)
        return {name: value.reshape(*x.shape[:-1], *value.shape[1:]) for name, value in found}

    return at


@dataclass(frozen=True, eq=False)
class PymcGraph:
    """The log density of one chain of a PyMC model as PyTensor's graph of its value variables.

    These are in the model's order, one after the other in `space`. The density has the Jacobian of PyMC's transforms.
    """

    model: Any
    values: list[Any]
    log_density: Any
    space: Named

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the value variables."""
        return [part.axes for part in self.space.parts]

    def coordinates(self, xp: Any, p: Any) -> Array:
        """Positions ``(*chains, dim)`` of the parameters' values."""
        parts = zip(self.space.parts, p, strict=True)
        return xp.concat([part.unconstrain(xp, value) for part, value in parts], axis=-1)

    def split(self, x: Array) -> list[Array]:
        """The value variables ``(rows, *shape)`` at positions ``(rows, dim)``."""
        columns = [x[:, self.space.coordinates(name)] for name in self.space.names]
        return [own.reshape(-1, *shape) for own, shape in zip(columns, self.shapes, strict=True)]

    def gradient(self) -> list[Any] | None:
        """Gradient of the log density in each value variable; None if an operation has none."""
        from pytensor.gradient import NullTypeGradError, grad

        try:
            found: Any = grad(self.log_density, self.values, disconnected_inputs="ignore", return_disconnected="zero")
        except (NotImplementedError, NullTypeGradError):
            return None
        return found

    def compile(self, outputs: list[Any]) -> Callable[[Array], list[np.ndarray]]:
        """A function of positions ``(*chains, dim)`` that gives outputs ``(rows, *shape)``, the chains in one axis."""
        function, turn = _compile(self.model, self.values, self.shapes, outputs), Turn()

        def at(x: Array) -> list[np.ndarray]:
            if not is_numpy_array(x):
                raise BackendError(
                    f"this model of PyMC computes on NumPy arrays: start from one; got {type(x).__name__}"
                )
            with turn:  # since functions of PyTensor keep their results in internal buffers
                return function(*self.split(np.reshape(x, (-1, self.space.dim))))

        return at


def pymc_graph(model: Any) -> PymcGraph:
    """The log density of a PyMC model, checked, and the space of its coordinates."""
    try:
        import pymc
    except ImportError as error:
        raise ImportError('models of PyMC need it: pip install "xpsample[pymc]"') from error
    from pymc.pytensorf import rvs_in_graph

    if not isinstance(model, pymc.Model):
        raise HyperparameterError(f"model must be a pymc.Model; got {given(model)}")
    if not model.free_RVs:
        raise CapabilityError("the PyMC model has no free random variable: what it samples is all observed")
    for rv in model.free_RVs:
        if rv.dtype not in ("float32", "float64"):
            raise CapabilityError(
                f"{rv.name} is discrete: sum over its values in the density, as pymc.Mixture does, or write a Model "
                "with a discrete space, such as Binary(), and use Blocks"
            )
        if getattr(model.rvs_to_transforms[rv], "name", None) == "circular":
            raise CapabilityError(
                f"the angle {rv.name} moves on all real numbers, where its density repeats. Set "
                "default_transform=pymc.distributions.transforms.Interval(-numpy.pi, numpy.pi)."
            )
    log_density = model.logp(jacobian=True)
    drawn = rvs_in_graph([log_density])
    if drawn:
        names = ", ".join(sorted(str(rv.name or rv.owner.op) for rv in drawn))
        raise CapabilityError(f"the log density draws random numbers ({names}): use all rows instead of a minibatch")
    values, (held,) = _settled(model, [log_density])
    return PymcGraph(model, values, held, _space(model))


def pymc_quantities(model: Any) -> tuple[PymcGraph, dict[str, Any]]:
    """Deterministics by name, and a graph whose value variables these are functions of."""
    graph = pymc_graph(model)
    wanted = [rv for rv in model.free_RVs if rv.name not in graph.space.names] + model.deterministics
    values, outputs = _settled(model, model.replace_rvs_by_values(wanted))
    return replace(graph, values=values), {rv.name: output for rv, output in zip(wanted, outputs, strict=True)}


def _settled(model: Any, outputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Copies of the value variables, and of graphs of them, for one chain.

    Shared variables, such as `pymc.Data`, have the values that they have now. A check of parameters that fails gives
    -inf, as in PyMC's own graphs: inserted for all chains together, one chain would set it for all.
    """
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch, local_remove_check_parameter
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.replace import graph_replace
    from pytensor.graph.rewriting.basic import out2in
    from pytensor.graph.traversal import graph_inputs
    from pytensor.tensor import constant

    inputs: Any = graph_inputs(outputs)
    shared: Any = {v: constant(v.get_value()) for v in inputs if isinstance(v, SharedVariable)}
    outputs = graph_replace(outputs, shared) if shared else outputs
    graph = FunctionGraph([model.rvs_to_values[rv] for rv in model.free_RVs], outputs, clone=True)
    out2in(local_check_parameter_to_ninf_switch if model.check_bounds else local_remove_check_parameter).rewrite(graph)
    return graph.inputs, graph.outputs


class Turn:
    """A lock that can be pickled and copied: a copy is a new, unlocked lock."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Turn, ()


def _compile(
    model: Any, values: list[Any], shapes: Sequence[tuple[int, ...]], outputs: list[Any], mode: str | None = None
) -> Callable[..., list[np.ndarray]]:
    """A function of rows of values, each ``(rows, *shape)``, that gives rows of outputs."""
    from pymc.pytensorf import compile as compile_graph
    from pytensor.graph.replace import vectorize_graph
    from pytensor.tensor import tensor

    rows = [tensor(shape=(None, *shape), dtype=v.dtype) for v, shape in zip(values, shapes, strict=True)]
    vectorized = vectorize_graph(outputs, dict(zip(values, rows, strict=True)))
    return compile_graph(rows, vectorized, mode=mode, on_unused_input="ignore", allow_input_downcast=True)


def _space(model: Any) -> Named:
    """The spaces of the free random variables: their maps agree with PyMC's transforms at some positions."""
    start = model.initial_point()
    own = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    shapes = [np.shape(start[name]) for name in own]
    values, outputs = _settled(model, model.replace_rvs_by_values(model.free_RVs))
    constrain = _compile(model, values, shapes, outputs, mode="FAST_COMPILE")

    # Random positions, and for each variable two more that are extreme in its coordinates alone.
    generator, count = np.random.default_rng(0), PROBES + 2 * len(own)
    z = [generator.standard_normal((count, *shape)) for shape in shapes]
    for i, own_z in enumerate(z):
        own_z[PROBES + 2 * i], own_z[PROBES + 2 * i + 1] = -FAR, FAR
    with np.errstate(all="ignore"):
        found = [np.asarray(value) for value in constrain(*z)]

    spaces: dict[str, Constrained] = {}
    dims: dict[str, Any] = {}
    for i, rv in enumerate(model.free_RVs):
        rows = [*range(PROBES), PROBES + 2 * i, PROBES + 2 * i + 1]
        coordinates, value = z[i][rows], found[i][rows]
        candidates = _candidates(value.shape[1:], value[-2:])
        space = next((space for space in candidates if _same_map(space, coordinates, value)), None)
        if space is None:
            spaces[own[i]] = Real(*shapes[i])
            continue
        spaces[rv.name] = space
        if model.named_vars_to_dims.get(rv.name):
            axes = model.named_vars_to_dims[rv.name]
            dims[rv.name] = [axis or f"{rv.name}_dim_{place}" for place, axis in enumerate(axes)]
    seen = {axis for axes in dims.values() for axis in axes}
    coords = {axis: [_label(x) for x in places or ()] for axis, places in model.coords.items() if axis in seen}
    coords = {axis: labels for axis, labels in coords.items() if labels}
    return named(spaces, dims, coords)


def _candidates(shape: tuple[int, ...], ends: np.ndarray) -> list[Constrained]:
    """Spaces of values that a transform may lead to, whose values at far coordinates are known."""
    low, high = np.min(ends, axis=0), np.max(ends, axis=0)
    found: list[Constrained] = [Real(*shape)]
    if np.all(low < high) and (bounded := between(low, high, shape)) is not None:
        found.append(bounded)
    if shape and shape[-1] > 1:
        found += [Ordered(*shape), PositiveOrdered(*shape), Simplex(*shape)]
    return found


def _same_map(space: Constrained, z: np.ndarray, value: np.ndarray) -> bool:
    """Return whether a space makes values (rows, *shape) of coordinates (rows, *axes)."""
    flat = z.reshape(len(z), -1)
    if flat.shape[-1] != space.dim:
        return False
    with np.errstate(all="ignore"):
        return np.allclose(np.asarray(space.constrain(numpy_xp, flat)[0]), value, rtol=1e-9, atol=1e-12, equal_nan=True)


def _label(label: Any) -> Any:
    """A label as `Model` takes it: a text or a number."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | int | float) else str(label)


def _like(x: Array, value: np.ndarray, shape: tuple[int, ...]) -> Array:
    """Rows of chains as an array of the positions' dtype."""
    return np.asarray(value, dtype=x.dtype).reshape(shape)
