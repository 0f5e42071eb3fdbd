"""Kernels of BlackJAX and NumPyro as kernels of xpsample, above all to run the conformance suite on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from xpsample.core.arrays import Array
from xpsample.core.errors import BackendError, CapabilityError
from xpsample.core.specs import Specs, Uniform
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import ADJUSTED, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point
from xpsample.targets.prepared import PreparedTarget

PARTS = 4  # Uniforms behind a key of 64 bits, of which each gives 16: as many as a float32 has for certain


class ForeignState(NamedTuple):
    """The leaves of the other library's state, each with the chain axes in front."""

    point: Point
    leaves: tuple[Array, ...]


class _Sampler(NamedTuple):
    """A kernel of another library, of one chain.

    ``init(x, key)`` gives a state, ``step(key, state)`` a new state, its position, the acceptance probability and
    whether it diverged.
    """

    init: Callable[[Array, Array], Any]
    step: Callable[[Array, Any], tuple[Any, Array, Array, Array]]


@dataclass(frozen=True, eq=False)
class Foreign(Kernel[ForeignState, Info]):
    """A kernel of another library of JAX; made by `blackjax_kernel` and `numpyro_kernel`."""

    make: Callable[[Callable[[Array], Array]], _Sampler]
    requires = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL
    # Its states hold densities: not MOVABLE.
    traits = ADJUSTED & ~(Trait.MOVABLE | Trait.STAYS_INSIDE)

    def init(self, target: BoundTarget, x: Array) -> ForeignState:
        if not isinstance(x, jax.Array):
            raise BackendError(f"a kernel of BlackJAX or NumPyro moves JAX arrays; got {type(x).__name__}")
        if x.dtype != jnp.zeros(()).dtype:
            raise BackendError(
                f"positions of {x.dtype} do not have JAX's own floating dtype, {jnp.zeros(()).dtype}, which kernels of "
                "BlackJAX and NumPyro use. Set JAX_ENABLE_X64, or convert them."
            )
        if not isinstance(target, PreparedTarget) or target.family is not None:
            raise CapabilityError(
                "a kernel of BlackJAX or NumPyro needs a target that stays the same at all steps, a Target or a Model. "
                "Remove the wrapper around it."
            )
        chains = x.shape[:-1]
        keys = jax.random.split(jax.random.PRNGKey(0), chains)
        states = _over(len(chains), self.make(_density(target)).init)(x, keys)
        return ForeignState(target.evaluate(x), tuple(map(jnp.asarray, jax.tree.leaves(states))))

    def noise(self, x: Array) -> Specs:
        return {"key": Uniform((*x.shape[:-1], PARTS))}

    def step(self, target: BoundTarget, state: ForeignState, noise: dict[str, Array]) -> tuple[ForeignState, Info]:
        old, sampler = state.point, self.make(_density(target))
        structure = jax.tree.structure(jax.eval_shape(sampler.init, old.x[(0,) * (old.x.ndim - 1)], _keys(jnp.ones(4))))

        def one(key: Array, leaves: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array, Array, Array]:
            new, x, acceptance, diverged = sampler.step(key, jax.tree.unflatten(structure, leaves))
            kept = (jnp.asarray(a, b.dtype) for a, b in zip(jax.tree.leaves(new), leaves, strict=True))
            return tuple(kept), x, acceptance, diverged

        leaves, x, acceptance, diverged = _over(old.x.ndim - 1, one)(_keys(noise["key"]), state.leaves)
        point = target.evaluate(jnp.asarray(x, old.x.dtype))
        moved = jnp.any(point.x != old.x, axis=-1)
        return ForeignState(point, leaves), Info(jnp.asarray(acceptance, old.x.dtype), moved, diverged, Evaluations())


def blackjax_kernel(make: Callable[[Callable[[Array], Array]], Any]) -> Foreign:
    """A kernel of BlackJAX, as it is, for `sample` and for the conformance suite.

    Parameters
    ----------
    make : callable
        ``make(logdensity_fn)``, with the log density of one position ``(dim,)``, gives BlackJAX's ``init`` and
        ``step``: ``lambda f: blackjax.hmc(f, 0.4, jnp.ones(2), 5)``.

    Returns
    -------
    Kernel
        For positions that are JAX arrays. Its evaluations are not counted. Wrappers whose target moves refuse it.

    Notes
    -----
    Its keys are made from xpsample's noise, so a run resumes bit for bit. It uses the target's gradients.

    Examples
    --------
    >>> import blackjax
    >>> import jax.numpy as jnp
    >>> import xpsample as xps
    >>> from xpsample_jax.foreign import blackjax_kernel
    >>> target = xps.Target(lambda x: -0.5 * jnp.sum(x**2, axis=-1))
    >>> kernel = blackjax_kernel(lambda f: blackjax.hmc(f, 0.5, jnp.ones(2), 4))
    >>> xps.sample(target, kernel, jnp.zeros((4, 2)), 50, seed=1, progress=False).draws.shape
    (50, 4, 2)
    """

    def sampler(log_density: Callable[[Array], Array]) -> _Sampler:
        algorithm = make(log_density)

        def step(key: Array, state: Any) -> tuple[Any, Array, Array, Array]:
            state, info = algorithm.step(key, state)
            accepted = getattr(info, "acceptance_rate", jnp.ones(()))
            return state, state.position, accepted, getattr(info, "is_divergent", jnp.asarray(False))

        return _Sampler(lambda x, key: algorithm.init(x, key), step)

    return Foreign(sampler)


def numpyro_kernel(make: Callable[[Callable[[Array], Array]], Any]) -> Foreign:
    """A kernel of NumPyro, as it is, for `sample` and for the conformance suite.

    Parameters
    ----------
    make : callable
        ``make(potential_fn)``, with minus the log density of one position ``(dim,)``, gives a kernel of NumPyro that
        adapts nothing: ``lambda f: NUTS(potential_fn=f, step_size=0.5, adapt_step_size=False)``.

    Returns
    -------
    Kernel
        Like the result of `blackjax_kernel`. NumPyro's own warm-up is switched off.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import xpsample as xps
    >>> from numpyro.infer import NUTS
    >>> from xpsample_jax.foreign import numpyro_kernel
    >>> target = xps.Target(lambda x: -0.5 * jnp.sum(x**2, axis=-1))
    >>> kernel = numpyro_kernel(lambda f: NUTS(potential_fn=f, step_size=0.5))
    >>> xps.sample(target, kernel, jnp.zeros((4, 2)), 50, seed=1, progress=False).draws.shape
    (50, 4, 2)
    """

    def sampler(log_density: Callable[[Array], Array]) -> _Sampler:
        kernel = make(lambda x: -log_density(x))

        def init(x: Array, key: Array) -> Any:
            return kernel.init(key, 0, x, (), {})

        def step(key: Array, state: Any) -> tuple[Any, Array, Array, Array]:
            state = kernel.sample(state._replace(rng_key=key), (), {})
            return state, state.z, state.accept_prob, getattr(state, "diverging", jnp.asarray(False))

        return _Sampler(init, step)

    return Foreign(sampler)


def _density(target: BoundTarget) -> Callable[[Array], Array]:
    """The log density of one position, whose derivative is the target's score."""

    @jax.custom_vjp
    def log_density(x: Array) -> Array:
        return target.evaluate(x).log_density

    def forward(x: Array) -> tuple[Array, Array]:
        point = target.evaluate(x)
        return point.log_density, point.score

    log_density.defvjp(forward, lambda score, grown: (grown * score,))
    return log_density


def _keys(uniforms: Array) -> Array:
    """Keys (*chains, 2) of uniforms (*chains, PARTS)."""
    parts = jnp.floor(uniforms * 2.0**16).astype(jnp.uint32)
    return (parts[..., ::2] << 16) | (parts[..., 1::2] & 0xFFFF)


def _over(axes: int, one: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one chain, mapped over the chain axes."""
    for _ in range(axes):
        one = jax.vmap(one)
    return one
