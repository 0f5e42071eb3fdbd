"""What a run is made of: its program, and what its trace tells of it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, given
from xpsample.core.errors import CapabilityError
from xpsample.core.hyperparameters import check_hyperparameters, show
from xpsample.core.registry import backend_of
from xpsample.core.schedule import Schedule
from xpsample.core.tree import dtype_name
from xpsample.core.version import __version__
from xpsample.kernels.compose import check_target_fits, on_target
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.noise import NoiseSource
from xpsample.sampling.program import Program
from xpsample.spaces.named import Named
from xpsample.spaces.space import Real
from xpsample.targets.shaped import coordinates, shape_of
from xpsample.targets.target import AbstractTarget, check_target
from xpsample.trace.diagnosis import about
from xpsample.trace.recorders import Recorder, check_recorders

MOST = 2**63 - 1
"""Draws, at most."""


def positions(target: AbstractTarget, x0: Array | Mapping[str, Array]) -> Array:
    """Start positions (*chains, dim), of values by name where parameters have names, or of arrays such as images."""
    space = getattr(target, "space", None)  # what is no target is refused where it is checked
    if isinstance(x0, Mapping) and isinstance(space, Named):
        return space.position(x0)
    return cast(Array, coordinates(target, x0))  # what is none is refused where it is checked


def prepare(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array,
    recorders: Sequence[Recorder],
    burn_in: int,
    thinning: int,
    draws: int,
    compile: bool = False,
) -> Program:
    """The program of a run; raises an XpsampleError if anything does not fit together."""
    check_target("target", target)
    if not isinstance(kernel, Kernel):
        raise CapabilityError(
            f"kernel must be one of xpsample.kernels, such as RWM(0.5), or your own Kernel; got {given(kernel)}"
        )
    draws, burn_in = check_count("draws", draws, 1, MOST), check_count("burn_in", burn_in, 0, MOST)
    thinning, recorders = check_count("thinning", thinning, 1, MOST), check_recorders(recorders)
    bound = target.prepare(x0, kernel.requires)
    check_hyperparameters(kernel, x0)
    check_target_fits(kernel, bound)
    return Program(on_target(kernel, bound, x0), bound, recorders, Schedule(draws, burn_in, thinning), compile)


def metadata(program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    """What a trace tells of its run, as JSON values."""
    space = program.target.space
    return {
        **({"parameters": space.to_json()} if isinstance(space, Named) else {}),
        **({"space": space.to_json()} if isinstance(space, Real) and shape_of(space) else {}),
        "kernel": show(program.kernel),
        "backend": backend_of(x).name,
        "dtype": dtype_name(x),
        "device": str(device_of(x)),
        "seed": source.describe(),
        "burn_in": program.schedule.burn_in,
        "thinning": program.schedule.thinning,
        "compiled": program.compile,
        "version": __version__,
        "diagnosis": about(program.kernel, program.target.space, x.shape[-1]),
    }
