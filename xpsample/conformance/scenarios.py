"""Kernels under test, each with a target and a stationary distribution that has exact draws; and users' scenarios."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from xpsample.conformance.discrete import discrete_scenarios, finite
from xpsample.conformance.distributions import Distribution, Pushforward, Shifted, gaussian_distribution
from xpsample.conformance.scenario import AsArray, Scenario
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.registry import to_host
from xpsample.gradients import FiniteDifference
from xpsample.kernels import (
    HMC,
    MALA,
    MAMS,
    MCLMC,
    MYULA,
    NUTS,
    PCN,
    RWM,
    SGNHT,
    ULA,
    DelayedAcceptance,
    DifferentialEvolution,
    EllipticalSlice,
    Ensemble,
    IndependentMH,
    Kernel,
    ParallelTempering,
    Slice,
    UnderdampedLangevin,
    with_position,
)
from xpsample.kernels.traits import Trait
from xpsample.metrics.stein import RBF
from xpsample.particles.annealed import Annealed
from xpsample.particles.svgd import SVGD, StochasticSVGD
from xpsample.prox import Regularizer
from xpsample.srld import SRLD, History, Rolling, Thinned
from xpsample.srmc import SRMC, Adaptive, Frozen, LeapfrogAutocorrelation, PowerLaw, Schedule, Stable, autocorrelation
from xpsample.targets import Capability, Exact, LineIntegral, Shift, Target, Tempered, Tilt, Untilted
from xpsample.targets.bridge import Bridge
from xpsample.zoo.curved import banana, bend, unbend
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import smoothed_mixture

EXACT = Exact()
COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
SPECTRUM = np.linalg.eigvalsh(np.linalg.inv(COVARIANCE))
BANANA = Pushforward(2, bend, unbend)


class HalfSquare(Regularizer, FrozenDataclass):
    """|x|^2 / 2, under which the stationary distribution of MYULA is normal."""

    def value(self, xp: Any, x: Array) -> Array:
        return 0.5 * xp.sum(x * x, axis=-1)

    def prox(self, backend: Backend, x: Array, scale: float | Array) -> Array:
        return x / (1.0 + per_coordinate(scale))


def _ula_stationary(step_size: float, more: float = 0.0) -> Distribution:
    # x' = (I - eta P) x + sqrt(2 eta) xi has the stationary covariance (P (I - eta P / 2))^{-1}.
    precision = np.linalg.inv(COVARIANCE) + more * np.eye(3)
    return gaussian_distribution(np.linalg.inv(precision @ (np.eye(3) - 0.5 * step_size * precision)))


def _thermal(step_size: float) -> Callable[[Any, np.ndarray, AsArray], Any]:
    # BAOAB on a Gaussian: positions exact, momenta independent of them with covariance I - h^2 P / 4.
    precision = np.linalg.inv(COVARIANCE)
    lower = np.linalg.cholesky(np.eye(3) - 0.25 * step_size**2 * precision)

    def with_exact_state(state: Any, normals: np.ndarray, asarray: AsArray) -> Any:
        return _with(state, momentum=asarray(normals @ lower.T))

    return with_exact_state


def _with_unit_velocity(state: Any, normals: np.ndarray, asarray: AsArray) -> Any:
    """Velocities that are uniform on the unit sphere."""
    return _with(state, velocity=asarray(normals / np.linalg.norm(normals, axis=-1, keepdims=True)))


def _with(state: Any, **parts: Array) -> Any:
    """A state, or a wrapper's state, with replaced parts of the base kernel's state."""
    if hasattr(state, "base"):
        return state._replace(base=state.base._replace(**parts))
    return state._replace(**parts)


def _smoothed_from_its_score() -> Target:
    """A normal plus noise, given by its score, whose integral along a line is exact with one node."""
    normal = smoothed_mixture([1.0], np.zeros((1, 3)), 0.7, 1.0)
    return Target(None, score=normal.score, data=normal.data, acceptance=LineIntegral(1))


def _on_hot_rung(beta: float) -> Callable[[Any, np.ndarray, AsArray], Any]:
    """Exact draws of the tempered Gaussian for the hot one of two rungs."""
    precision, lower = np.linalg.inv(COVARIANCE), np.linalg.cholesky(COVARIANCE)

    def with_exact_state(state: Any, normals: np.ndarray, asarray: AsArray) -> Any:
        point = state.base.point
        x = np.stack([to_host(point.x)[0], normals @ lower.T / math.sqrt(beta)])
        log_density = asarray(-0.5 * np.sum(x * (x @ precision), axis=-1))
        base = point.base._replace(x=asarray(x), log_density=log_density)
        return state._replace(base=with_position(state.base, point._replace(x=base.x, base=base)))

    return with_exact_state


def scenarios() -> list[Scenario]:
    """Every kernel of the library, plain and repellent."""
    return _continuous() + _repelled_by_positions() + discrete_scenarios()


def _continuous() -> list[Scenario]:
    normal, curved = (lambda asarray: gaussian(COVARIANCE)), (lambda asarray: banana())
    wide = 1.5 * np.eye(3) + 0.3
    plain = [
        Scenario("rwm", curved, lambda a: RWM(1.0, a([1.0, 2.0])), BANANA),
        Scenario("pcn", curved, lambda a: PCN(0.7, a([0.1, -0.1]), a([1.2, 2.0])), BANANA),
        Scenario("independent", curved, lambda a: IndependentMH(a([0.0, 0.5]), a([1.5, 3.0])), BANANA),
        Scenario("ensemble", curved, lambda a: Ensemble(), BANANA, walkers=6),
        Scenario("ensemble-de", curved, lambda a: Ensemble(DifferentialEvolution()), BANANA, walkers=6),
        Scenario("elliptical", curved, lambda a: EllipticalSlice(a([0.1, -0.1]), a([1.2, 2.0])), BANANA),
        Scenario("slice", curved, lambda a: Slice(1.5, a([1.0, 2.0])), BANANA),
        Scenario("ula", normal, lambda a: ULA(0.2), _ula_stationary(0.2)),
        # The envelope of 3 |x|^2 / 2 with smoothing 0.4 is (3 / 2.2) |x|^2 / 2.
        Scenario("myula", normal, lambda a: MYULA(0.2, HalfSquare(), 0.4, 3.0), _ula_stationary(0.2, 3.0 / 2.2)),
        Scenario("mala", curved, lambda a: MALA(0.5), BANANA),
        Scenario("mala-preconditioned", curved, lambda a: MALA(0.4, a([[1.0, 0.3], [0.3, 1.5]])), BANANA),
        Scenario("hmc", curved, lambda a: HMC(0.4, 5), BANANA),
        Scenario("hmc-diagonal-mass", curved, lambda a: HMC(0.4, 4, a([1.0, 0.6])), BANANA),
        Scenario("hmc-dense-mass", curved, lambda a: HMC(0.4, 4, a([[1.0, 0.3], [0.3, 0.7]])), BANANA),
        Scenario("nuts", curved, lambda a: NUTS(0.5, max_depth=4), BANANA),
        Scenario("nuts-dense-mass", curved, lambda a: NUTS(0.3, a([[1.0, 0.3], [0.3, 0.7]]), max_depth=3), BANANA),
        Scenario("mams", curved, lambda a: MAMS(0.5, 2.2), BANANA),
        Scenario("mams-dense-mass", curved, lambda a: MAMS(0.4, 1.7, a([[1.0, 0.3], [0.3, 0.7]])), BANANA),
        Scenario(
            "mclmc",
            normal,
            lambda a: MCLMC(0.3, 1.5),
            gaussian_distribution(COVARIANCE),  # but for a bias that four steps do not show
            with_exact_state=_with_unit_velocity,
        ),
        Scenario(
            "underdamped",
            normal,
            lambda a: UnderdampedLangevin(0.5),
            gaussian_distribution(COVARIANCE),
            with_exact_state=_thermal(0.5),
        ),
        Scenario(
            "sgnht",
            normal,
            lambda a: SGNHT(0.5),
            gaussian_distribution(COVARIANCE),
            biased="its distribution at a finite step size has no closed form",
        ),
        Scenario(
            "tempering",
            normal,
            lambda a: ParallelTempering(RWM(a([[0.8], [1.5]])), (1.0, 0.3)),
            gaussian_distribution(COVARIANCE),
            with_exact_state=_on_hot_rung(0.3),
        ),
        Scenario(
            "delayed",
            lambda a: Bridge(gaussian(np.diag([1.5, 4.0])), banana()),
            lambda a: DelayedAcceptance(RWM(1.0), 3),
            BANANA,
        ),
        Scenario(
            "mala-tempered",
            lambda a: Tempered(gaussian(COVARIANCE), 0.5),
            lambda a: MALA(0.5),
            gaussian_distribution(2 * COVARIANCE),
        ),
        Scenario(
            "annealed",
            lambda a: _smoothed_from_its_score(),
            lambda a: Annealed(MALA(0.4), (2.0, 1.0, 0.5), 2),
            gaussian_distribution((0.7**2 + 0.5**2) * np.eye(3)),
            with_exact_state=lambda state, normals, a: state._replace(n=state.n + 3),  # at the end of the ladder
        ),
    ]
    exact = gaussian_distribution(COVARIANCE)
    bases: list[tuple[str, Callable[[AsArray], Kernel], Distribution, Any]] = [
        ("rwm", lambda a: RWM(0.8), exact, None),
        ("pcn", lambda a: PCN(0.6, None, a(wide)), exact, None),
        ("independent", lambda a: IndependentMH(None, a(wide)), exact, None),
        ("ula", lambda a: ULA(0.2), _ula_stationary(0.2), None),
        ("mala", lambda a: MALA(0.4), exact, None),
        ("hmc", lambda a: HMC(0.4, 4), exact, None),
        ("nuts", lambda a: NUTS(0.4, max_depth=3), exact, None),
        ("mams", lambda a: MAMS(0.5, 2.2), exact, None),
        ("mclmc", lambda a: MCLMC(0.3, 1.5), exact, _with_unit_velocity),
        ("underdamped", lambda a: UnderdampedLangevin(0.5), exact, _thermal(0.5)),
    ]
    repellent = [
        _repellent(f"sr-{name}", base, stationary, with_exact_state)
        for name, base, stationary, with_exact_state in bases
    ]
    ula, mala, hmc = bases[3], bases[4], bases[5]
    repellent += [
        _repellent("sr-mala-difference", mala[1], mala[2], None, tilt=FiniteDifference(0.1)),
        _repellent("sr-hmc-shift", hmc[1], hmc[2], None, tilt=Shift()),
        replace(_repellent("sr-mala-untilted", mala[1], mala[2], None, tilt=Untilted()), tilt=Untilted()),
        replace(_repellent("sr-hmc-untilted", hmc[1], hmc[2], None, tilt=Untilted()), tilt=Untilted()),
        _repellent("sr-ula-stable", ula[1], ula[2], None, lambda a: Stable(autocorrelation(ula[1](a)))),
        _repellent(
            "sr-hmc-stable", hmc[1], hmc[2], None, lambda a: Stable(LeapfrogAutocorrelation(0.4, 4), a(SPECTRUM))
        ),
        replace(
            _repellent("sr-mala-adaptive", mala[1], mala[2], None),
            kernel=lambda a, alpha=1.5: SRMC(mala[1](a), Adaptive(alpha, 100), PowerLaw(0.8), Exact()),
        ),
    ]
    return plain + repellent


def _repellent(
    name: str,
    base: Callable[[AsArray], Kernel],
    stationary: Distribution,
    with_exact_state: Any,
    schedule: Callable[[AsArray], Schedule] = lambda a: PowerLaw(0.8),
    tilt: Tilt | FiniteDifference = EXACT,
) -> Scenario:
    extra = {} if with_exact_state is None else {"with_exact_state": with_exact_state}
    alpha = 0.5

    def frozen(asarray: AsArray, generator: np.random.Generator, chains: int) -> tuple[Kernel, Distribution]:
        # On a Gaussian the tilted target is the target, shifted by alpha theta: every chain has its own theta.
        theta = generator.standard_normal((chains, stationary.dim))
        return SRMC(base(asarray), alpha, Frozen(), tilt, asarray(theta)), Shifted(stationary, alpha * theta)

    return Scenario(
        name,
        lambda a: gaussian(COVARIANCE),
        lambda a, alpha=alpha: SRMC(base(a), alpha, schedule(a), tilt),
        stationary,
        base=base,
        frozen=frozen,
        **extra,
    )


def _repelled_by_positions() -> list[Scenario]:
    """SRLD over several bases, and sets of particles."""
    normal, stationary, near = (lambda asarray: gaussian(COVARIANCE)), gaussian_distribution(COVARIANCE), RBF(1.5)
    moves = "the past is not independent of the chain, so that no distribution known in closed form is left invariant"
    rests = "a set of particles comes to rest, and is not distributed as the target there"
    steps = "the product of the targets is left invariant in the limit of small steps only"

    def repelled(name: str, base: Callable[[AsArray], Kernel], history: History, shared: bool = False) -> Scenario:
        def kernel(asarray: AsArray, alpha: float = 2.0) -> Kernel:
            return SRLD(base(asarray), alpha, history, near, shared)

        return Scenario(name, normal, kernel, stationary, base=base, biased=moves)

    return [
        repelled("srld", lambda a: ULA(0.2), Rolling(2, 2)),
        repelled("srld-thinned", lambda a: ULA(0.2), Thinned(2, 2)),
        repelled("srld-shared", lambda a: ULA(0.2), Thinned(2, 2), shared=True),
        repelled("srld-underdamped", lambda a: UnderdampedLangevin(0.3), Rolling(2, 2)),
        Scenario("svgd", normal, lambda a: SVGD(0.2), stationary, biased=rests),
        Scenario("svgd-stochastic", normal, lambda a: StochasticSVGD(0.1, RBF(0.5)), stationary, biased=steps),
    ]


def cases_of(name: str, kernel: Kernel, libraries: Sequence[str] = ()) -> list[Scenario]:
    """A kernel on targets of the suite that have two dimensions: a banana and a correlated normal.

    Parameters
    ----------
    name : str
        What the rows are called.
    kernel : Kernel
        With all its hyperparameters. One on discrete spaces gets a small discrete target instead. One that does not
        declare `Trait.INVARIANT` is not tested for that.
    libraries : sequence of str
        As for `Scenario`.

    Returns
    -------
    list of Scenario

    Examples
    --------
    >>> from xpsample import MALA
    >>> from xpsample.conformance import cases_of
    >>> [case.name for case in cases_of("mine", MALA(0.5))]
    ['mine-banana', 'mine-normal']
    """
    if not isinstance(kernel, Kernel):
        raise HyperparameterError(f"kernel must be a Kernel, such as MALA(0.5); got {given(kernel)}")
    if kernel.requires & (Capability.DISCRETE | Capability.DIFFERENCES):
        found = [finite(name, lambda asarray: kernel)]
    else:
        covariance = COVARIANCE[:2, :2]
        normal = gaussian_distribution(covariance)
        found = [
            Scenario(f"{name}-banana", lambda asarray: banana(), lambda asarray: kernel, BANANA),
            Scenario(f"{name}-normal", lambda asarray: gaussian(covariance), lambda asarray: kernel, normal),
        ]
    biased = "" if Trait.INVARIANT in kernel.traits else "the kernel does not say that it leaves its target invariant"
    return [replace(case, biased=biased, libraries=tuple(libraries)) for case in found]


def loaded_cases(where: str) -> list[Scenario]:
    """The scenarios at ``package.module:NAME``: a `Kernel`, a `Scenario`, or a list; HyperparameterError else."""
    module, _, name = where.partition(":")
    try:
        value = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise HyperparameterError(f"nothing can be loaded from {where}: {error}") from error
    if isinstance(value, Kernel):
        return cases_of(name.lower(), value)
    found = list(value) if isinstance(value, list | tuple) else [value]
    if not found or not all(isinstance(case, Scenario) for case in found):
        raise HyperparameterError(
            f"{where} must be a Kernel, such as MALA(0.5), a Scenario or a list of scenarios; got {given(value)}"
        )
    return found
