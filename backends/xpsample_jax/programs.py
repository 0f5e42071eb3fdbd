"""Compiled programs: traced anew by each run, and compiled once in a process for each text that comes out.

A trace holds what a function read when it was made, and JAX keeps traces by the identity of functions. Therefore each
`Compiled` traces a fresh function object. Only executables outlive it, and they are known by their lowered text.
"""

import hashlib
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding

MOST = 2**29  # Approximate bytes of all executables of a process; the least recently used go first

FORMS = 64  # Shapes of arguments for which a function keeps its program; the oldest goes first

ARRAYS = (jax.Array, np.ndarray, np.generic)
"""Types of the arguments of compiled programs."""

OF_XLA = ("Sharding", "SPMD", "lapack_", "cu", "hip", "TopK", "ApproxTopK", "mhlo.", "chlo.", "stablehlo.", "xla.")
"""Prefixes of custom calls that their text defines fully; others may hold the address of a function."""

_raised: deque[BaseException] = deque(maxlen=8)
"""Last errors of functions on the host. JAX replaces them by its errors with long texts."""

_lock = threading.Lock()


def remembered(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function on the host, whose error `errors_of_host` raises again."""

    def call(*args: Any) -> Any:
        try:
            return f(*args)
        except BaseException as error:
            _raised.append(error)
            raise

    return call


@contextmanager
def errors_of_host() -> Iterator[None]:
    """Raise the error of a function on the host in place of JAX's error about it."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        own = next((e for e in _raised if f"{type(e).__name__}: {e}" in str(error)), None)
        if own is None:
            raise
        _raised.remove(own)
        raise own from None


class Executables:
    """Compiled programs of a process, by all that they are made from.

    Parameters
    ----------
    most : int
        Approximate bytes of all of them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Approximate size in bytes."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, size: int, make: Callable[[], Any]) -> Any:
        """The program of a key, made where there is none; threads make theirs side by side."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()
        with self._lock:
            if key not in self._kept and size <= self.most:
                self._kept[key] = made, size
                self._bytes += size
            while self._bytes > self.most:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed
        return made

    def clear(self) -> None:
        """Forget them all."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0


EXECUTABLES = Executables(MOST)


class Compiled:
    """A function, compiled for the shapes that it is called with.

    Within a trace it becomes a part of that. If JAX's compiler is off (`jax.disable_jit`), it is called as it is.

    Parameters
    ----------
    f : callable
        Function of trees whose leaves are arrays, which become arguments, or Python values, which become constants.
    donate : tuple of int
        Arguments whose memory results may take.
    few : bool, optional
        Whether the chains of its steps are few (`compiler_options`).
    shardings : tree of Sharding, optional
        Shardings of the results.
    """

    def __init__(
        self, f: Callable[..., Any], donate: tuple[int, ...] = (), few: bool | None = None, shardings: Any = None
    ) -> None:
        self.f, self.few = f, few
        self._settings: dict[str, Any] = {
            "donate_argnums": donate,
            "keep_unused": True,
        }  # else the text does not say which are used
        if shardings is not None:
            self._settings["out_shardings"] = shardings
        self._jitted: dict[Hashable, Any] = {}
        self._ready: dict[Hashable, Any] = {}

    def __call__(self, *args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        within = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if option("jax_disable_jit") and not within:
            return self.f(*args)
        constants = [None if isinstance(leaf, ARRAYS) else leaf for leaf in leaves]
        function = structure, *map(id, constants)
        if function not in self._jitted:
            self._jitted[function] = jax.jit(_fresh(self.f, structure, constants), **self._settings)
        jitted = self._jitted[function]
        leaves = [leaf if isinstance(leaf, ARRAYS) else None for leaf in leaves]
        if within:
            return jitted(*jax.tree.unflatten(structure, leaves))
        leaves = [_in_order(leaf) for leaf in leaves]
        args = jax.tree.unflatten(structure, leaves)
        form = structure, tuple(map(_form, leaves)), _settings()
        ready = self._ready.get((function, form))
        if ready is None:
            ready = self._compiled(jitted.trace(*args), form, args)
            with _lock:
                if len(self._ready) >= FORMS:
                    del self._ready[next(iter(self._ready))]
                self._ready[function, form] = ready
        with errors_of_host():
            return ready(*args)

    def _compiled(self, traced: Any, form: Hashable, args: tuple) -> Any:
        lowered = traced.lower()
        results = tuple(jax.tree.leaves(self._settings.get("out_shardings")))  # the text omits their devices
        text, platform = lowered.as_text(), _platform((args, results))
        if not _is_whole(text) and self._settings["donate_argnums"]:
            # If a host function raised, donated memory would be gone, and the draws in it.
            return Compiled(self.f, (), self.few, self._settings.get("out_shardings"))
        if not _is_whole(text):
            return _compile(lowered, self.few, platform)
        out = lowered.out_tree, tuple(bool(getattr(a, "weak_type", False)) for a in jax.tree.leaves(lowered.out_info))
        known = hashlib.sha256(text.encode()).digest(), form, results, out, self.few
        # About 128 bytes for each character of the text: a loop of 4,893 characters took 0.65 MB.
        return EXECUTABLES.get(known, 128 * len(text), lambda: _compile(lowered, self.few, platform))


def _fresh(f: Callable[..., Any], structure: Any, constants: list[Any]) -> Callable[..., Any]:
    """`f` of the arrays among its arguments, as a function object that JAX has not seen, of the same name."""

    def fresh(*args: Any) -> Any:
        arrays = iter(jax.tree.leaves(args))
        return f(*jax.tree.unflatten(structure, [next(arrays) if value is None else value for value in constants]))

    fresh.__name__ = getattr(f, "__name__", fresh.__name__)
    return fresh


def _in_order(leaf: Any) -> Any:
    """An array with its last axis innermost in memory.

    One that shares the memory of another library may lie otherwise, by its strides and, since JAX copies what is not
    aligned, by chance of its address. A program is for one layout, and how it rounds may depend on that.
    """
    if not isinstance(leaf, jax.Array) or leaf.ndim < 2:
        return leaf
    form: Any = leaf  # JAX's stubs do not know the attribute
    layout = form.format.layout
    if layout is None or layout.major_to_minor == tuple(range(leaf.ndim)):
        return leaf
    return jnp.array(leaf, copy=True)


def _form(leaf: Any) -> Hashable:
    """The part of an argument that identifies a program: not its value."""
    if isinstance(leaf, jax.Array):
        return leaf.aval, leaf.sharding, leaf.committed
    return type(leaf), getattr(leaf, "dtype", None), getattr(leaf, "shape", None)


SETTINGS = (
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_disable_most_optimizations",
    "jax_enable_x64",
    "jax_optimization_level",
)
"""Settings of JAX's that change a program, or what is traced of a function, for the same arguments."""


def _settings() -> Hashable:
    return tuple(map(option, SETTINGS))


def option(name: str) -> Any:
    """A setting of JAX's as it is here and now; None where there is none of that name."""
    return getattr(jax.config, name, None)


def _is_whole(text: str) -> bool:
    """Return whether a program's text defines it fully, without calls of functions outside the text."""
    called = re.findall(r"custom_call @([\w.$]+)", text)
    return len(called) == text.count("custom_call") and all(name.startswith(OF_XLA) for name in called)


_refused: set[str] = set()
"""Compiler options that this jaxlib does not know."""


def _platform(where: Any) -> str:
    """Platform of the devices of arrays or shardings, or of the default device if there are none."""
    leaves = [leaf for leaf in jax.tree.leaves(where) if isinstance(leaf, jax.Array | Sharding)]
    shardings = [leaf if isinstance(leaf, Sharding) else leaf.sharding for leaf in leaves]
    devices = shardings[0].device_set if shardings else jax.devices()
    return next(iter(devices)).platform


def compiler_options(few: bool | None, platform: str) -> dict[str, Any]:
    """Compiler options of a program; `few` is whether its chains are few, or None if it has no steps.

    None keeps more digits than its text says: XLA's GPU compiler would take out a rounding to float32 and back. Those
    on CPUs are compiled without the YNNPACK fusions of XLA's CPU compiler, where it has them.

    jaxlib 0.10.2 gets a reduction wrong whose result broadcasts against a further axis, from 16,385 chains on in
    float32 (a relative of https://github.com/jax-ml/jax/issues/39103). Products by themselves are right, and faster
    where chains are few. What runs once is compiled by the older way of emitting fusions, which takes two thirds of the
    time, and would make steps up to 2.6 times slower. Versions without an option are left alone.
    """
    options: dict[str, Any] = {"xla_allow_excess_precision": False}
    if platform == "cpu":
        options["xla_cpu_experimental_ynn_fusion_type"] = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT" if few else ""
        if few is None:
            options["xla_cpu_use_fusion_emitters"] = False
    return {name: value for name, value in options.items() if name not in _refused}


def _compile(lowered: Any, few: bool | None, platform: str) -> Any:
    options = compiler_options(few, platform)
    try:
        return lowered.compile(options)
    except jax.errors.JaxRuntimeError as error:
        unknown = [name for name in options if name in str(error)]
        if not unknown:
            raise
    _refused.update(unknown)
    return _compile(lowered, few, platform)


class OwnModes:
    """A block in which arrays broadcast, numbers move between host and device, nan is one, and products keep digits.

    It may be entered again within itself, and by several threads.

    Notes
    -----
    Steps meet nan where a proposal is rejected, and their scalars come from the host. A user who forbids such things
    means user code, called outside of a run.

    On GPUs and TPUs, JAX rounds the factors of a product of float32 matrices to 11 bits or 8, by default. A difference
    of log densities then has an error of 3e-4 of the log densities or more, which no acceptance step puts right. Within
    the block products keep the digits of their dtype, unless ``jax_default_matmul_precision`` is set.
    """

    def __init__(self) -> None:
        self._entered = threading.local()

    def __enter__(self) -> None:
        stack = ExitStack()
        for mode in (
            jax.numpy_rank_promotion("allow"),
            jax.transfer_guard("allow"),
            jax.debug_nans(False),
            jax.debug_infs(False),
        ):
            stack.enter_context(mode)
        if option("jax_default_matmul_precision") is None:
            stack.enter_context(jax.default_matmul_precision("highest"))
        self._stacks().append(stack)

    def __exit__(self, *error: object) -> None:
        self._stacks().pop().close()

    def _stacks(self) -> list[Any]:
        if not hasattr(self._entered, "stacks"):
            self._entered.stacks = []
        return self._entered.stacks


OWN_MODES = OwnModes()
