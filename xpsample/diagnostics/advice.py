"""Advice that fits the kernel and the space of a run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ACROSS = (
    "moves of one or few variables may not cross between modes: wrap the kernel in ParallelTempering or HiSS, or use "
    "one Categorical variable in place of variables that must agree"
)


MODES = (
    "the modes do not mix, so the draws do not show their weights. Use ParallelTempering, or start all chains in the "
    "intended mode"
)

TEMPERED = (
    "the ladder brings chains to other modes too seldom: run longer, or let its rungs mix more between swaps, by a "
    "larger every or another base kernel such as HMC()"
)


class Advice(NamedTuple):
    """Facts about the kernel that moves the chains, from ``known["moves"]``.

    Attributes
    ----------
    kernel : str
        Name of the innermost kernel.
    step, metric : str or None
        Name of its step size and of its metric, if it has them.
    dense, discrete : bool
        Whether the metric is a full matrix; whether the space is discrete.
    unset, learned : bool
        Whether something was tuned; whether moves are accepted with a learned probability.
    blocks : sequence of sequence of str
        Parameters of the blocks of `Blocks`.
    wrappers : sequence of str
        Names of the kernels around it.
    """

    kernel: str = "HMC"
    step: str | None = "step_size"
    metric: str | None = "mass"
    dense: bool = False
    discrete: bool = False
    unset: bool = False
    learned: bool = False
    blocks: Sequence[Sequence[str]] = ()
    wrappers: Sequence[str] = ()

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> "Advice":
        """From what is known of a run."""
        return cls(**known.get("moves", {}))

    @property
    def across(self) -> str:
        """For chains that stay in their modes."""
        if "ParallelTempering" in self.wrappers:
            return TEMPERED
        return ACROSS if self.discrete else MODES

    @property
    def smaller(self) -> str:
        """For chains that hardly move, or leave the finite numbers."""
        if "SRLD" in self.wrappers:
            return "use a smaller alpha or step size"
        if self.discrete and (self.step is None or self.unset):
            return self.across
        return "use another kernel" if self.step is None else f"use a smaller {self.step.replace('_', ' ')}"

    @property
    def less_regular(self) -> str:
        """For chains that swing from side to side."""
        if self.kernel == "HMC":
            return "set a length instead of steps, or neither, so that trajectories have different lengths"
        return self.smaller

    @property
    def accepted_more(self) -> str:
        """For moves that are seldom accepted."""
        if self.learned:
            return "the learned probabilities are small at every step size: train longer, or use direct=False"
        if self.unset:
            return (
                "the step size was tuned, so a smaller one may not help: check that the density is continuous, or use "
                "a longer warm-up"
            )
        return f"use a smaller {(self.step or 'step size').replace('_', ' ')}"

    @property
    def further(self) -> str:
        """For chains that walk slowly."""
        if self.discrete:
            return TEMPERED if self.across is TEMPERED else f"run longer; if they still differ, {ACROSS}"
        if "Minibatch" in self.wrappers:
            return "use larger batches, which allow larger steps, or run much longer"
        if len(self.blocks) > 1:
            return "correlated blocks slow each other down: move their parameters in one block, or run much longer"
        if self.step is not None and not self.unset:
            return (
                "leave the step size and the metric unset so that they are tuned, use a metric that fits or a kernel "
                "that moves further, such as HMC, or run much longer"
            )
        return f"{self.metrics}, use a kernel that moves further, such as NUTS, or run much longer"

    @property
    def metrics(self) -> str:
        """For coordinates that are narrowly correlated."""
        if self.dense:
            return "the metric is dense already: use another parametrization"
        own = "HMC(mass=DenseMetric())" if self.metric is None else f"{self.kernel}({self.metric}=DenseMetric())"
        return f"use a dense metric, such as {own}"

    def together(self, names: Sequence[str]) -> str:
        """For these coordinates, which are narrowly correlated."""
        own = [next((i for i, block in enumerate(self.blocks) if n.split("[")[0] in block), 0) for n in names]
        if len(set(own)) > 1:
            both = ", ".join(repr(name) for i in dict.fromkeys(own) for name in self.blocks[i])
            return f"their blocks move one after the other: move both in one block, ({both}), or sum out a discrete one"
        if self.discrete:
            return self.across
        return self.metrics if self.dense else f"{self.metrics}, or another parametrization"


OF_HMC = Advice()
