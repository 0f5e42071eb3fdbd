"""Kernels from elsewhere as scenarios."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from xpsample.conformance.discrete import finite
from xpsample.conformance.distributions import gaussian_distribution
from xpsample.conformance.scenario import Scenario
from xpsample.conformance.scenarios import BANANA, COVARIANCE
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import Kernel
from xpsample.kernels.traits import Trait
from xpsample.targets import Capability
from xpsample.zoo.curved import banana
from xpsample.zoo.gaussian import gaussian

NORMAL = COVARIANCE[:2, :2]


def cases_of(name: str, kernel: Kernel, libraries: Sequence[str] = ()) -> list[Scenario]:
    """A kernel on targets of the suite that have two dimensions: a banana and a correlated normal.

    Parameters
    ----------
    name : str
        What the rows are called.
    kernel : Kernel
        With all its hyper-parameters. One on discrete spaces gets a small discrete target instead. One that does not
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
        normal = gaussian_distribution(NORMAL)
        found = [
            Scenario(f"{name}-banana", lambda asarray: banana(), lambda asarray: kernel, BANANA),
            Scenario(f"{name}-normal", lambda asarray: gaussian(NORMAL), lambda asarray: kernel, normal),
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
