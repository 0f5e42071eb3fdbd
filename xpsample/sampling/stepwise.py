"""Runs one step at a time."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import StopFlag
from xpsample.core.checks import errors_of_functions
from xpsample.core.devices import current_device
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.noise import NoiseSource, Replay, as_noise_source, chunk_steps
from xpsample.sampling.program import FAILED, OF_TARGETS
from xpsample.sampling.sampler import Sampler
from xpsample.sampling.warm_up import warm_up
from xpsample.targets.bound import BoundTarget
from xpsample.targets.target import AbstractTarget
from xpsample.trace.recorders import Recorder


def steps(
    target: AbstractTarget,
    kernel: Kernel,
    x0: Array | Mapping[str, Array],
    *,
    seed: int | NoiseSource,
    warmup: int | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield (state, info) after every step, without end. The chain equals that by `sample` with the same seed.

    Parameters
    ----------
    target, kernel, x0, seed, warmup
        As in `sample`; the steps of the warm-up are made before the first that is yielded.

    Yields
    ------
    state : NamedTuple
        The kernel's state; positions in ``state.point.x``, shape ``(*chains, dim)``.
    info : NamedTuple
        What the step did.

    See Also
    --------
    sample : Runs a kernel and keeps its draws.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> from itertools import islice
    >>> for state, info in islice(xps.steps(target, xps.MALA(0.5), x0, seed=1), 3):
    ...     state.point.x.shape
    (4, 2)
    (4, 2)
    (4, 2)
    """
    sampler = Sampler(target, kernel, x0, 1, recorders=(_Everything(),))
    x0, program = sampler.positions, sampler.program
    with current_device(x0):
        source, backend = as_noise_source(seed), program.backend
        warmed = warm_up(target, program, x0, source, warmup)
        program, carry, never = warmed.program, warmed.carry, StopFlag()
        specs = program.specs(carry)
        length = 1 if isinstance(source, Replay) else chunk_steps(specs)
        like = backend.xp.asarray(program.like(carry), copy=True)  # the carry's own memory may be reused
    for start in itertools.count(0, length):
        block = source.block(backend, specs, start, start + length, like)
        for i in range(length):
            # Each step is a run of one row, so that the driver never reuses the memory of a yielded value.
            noise = Replay({name: rows[i : i + 1, ...] for name, rows in block.items()})
            with errors_of_functions(FAILED.format(start + i, start + i + 1), OF_TARGETS):
                carry, rows, sums, _ = backend.drive(program, carry, None, noise, 0, 1, never)
            state, info = tree.map(lambda row: row[0, ...], rows)[0]
            yield state, info._replace(evaluations=sums.evaluations)


class _Everything(Recorder, eq=True):
    """The whole state and info as a row."""

    name: str = "everything"

    def init(self, target: BoundTarget, state: Any) -> tree.Tree:
        return None

    def update(self, target: BoundTarget, carry: tree.Tree, state: Any, info: Any) -> tuple[tree.Tree, tree.Tree]:
        return None, (state, info._replace(evaluations=None))  # plain integers, which have no rows

    def result(self, target: BoundTarget, carry: tree.Tree, rows: tree.Tree) -> Any:
        return rows
