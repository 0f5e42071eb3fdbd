"""Values that a user may pass by mistake: each with a name, and words that say what an argument makes of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import xpsample as xps
from tests.conftest import Library


@dataclass(frozen=True)
class Value:
    """What is passed in place of a good argument.

    Parameters
    ----------
    name : str
    make : callable
        ``make(library, good)``, with the library of the call and the good argument that is replaced.
    tag : str
        Arguments name the tags that they have a meaning for; a call that takes another one is wrong and silent.
    """

    name: str
    make: Callable[[Library, Any], Any]
    tag: str = "nonsense"


def _plain(name: str, value: Any, tag: str = "nonsense") -> Value:
    return Value(name, lambda library, good: value, tag)


def _array(name: str, host: Any, tag: str = "nonsense", dtype: str | None = None) -> Value:
    return Value(name, lambda library, good: library.array(np.asarray(host), dtype), tag)


def _raises(*_: Any) -> Any:
    raise ValueError("not in the support")


def _foreign(library: Library, good: Any) -> Any:
    """An array of another library, where there is one."""
    if library.name == "numpy":
        import torch

        return torch.full((4,), 0.5, dtype=torch.float64)
    return np.full((4,), 0.5)


def _class_of(library: Library, good: Any) -> Any:
    return type(good)


ODD = "odd array"
"""Of arrays and NumPy scalars that mean nothing to any argument, but for one that takes whatever is an array."""

NUMBERS = [
    _plain("1", 1, "one"),
    _plain("1.0", 1.0, "float one"),
    _plain("2", 2, "whole"),
    _plain("3", 3, "whole"),
    _plain("0.5", 0.5, "share"),
    _plain("1.5", 1.5, "above"),
    _plain("0", 0, "zero"),
    _plain("0.0", 0.0, "float zero"),
    _plain("-1", -1, "negative"),
    _plain("-0.5", -0.5, "negative"),
    _plain("nan", math.nan),
    _plain("inf", math.inf, "inf"),
    _plain("-inf", -math.inf, "negative"),
    _plain("1e300", 1e300, "huge"),
    _plain("1e-300", 1e-300, "share"),
    _plain("10**400", 10**400, "vast"),
    _plain("True", True, "flag"),
    _plain("False", False, "flag"),
    _plain("1j", 1j),
    _plain("Fraction(1, 2)", Fraction(1, 2), "share"),
    _plain("Decimal('0.5')", Decimal("0.5")),
    _plain("float64 scalar", np.float64(0.5), "share"),
    _plain("float32 scalar", np.float32(0.5), "share"),
    _plain("float16 scalar", np.float16(0.5), "share"),
    _plain("nan scalar", np.float64(math.nan), ODD),
    _plain("int64 scalar", np.int64(3), "whole"),
    _plain("uint8 scalar", np.uint8(2), "whole"),
    _plain("bool scalar", np.bool_(True), "flag"),
    _plain("complex scalar", np.complex128(1j), ODD),
]

OBJECTS = [
    _plain("None", None, "none"),
    _plain("text", "x", "text"),
    _plain("empty text", ""),
    _plain("number as text", "0.5", "text"),
    _plain("bytes", b"x"),
    _plain("text scalar", np.str_("x"), "text"),
    _plain("object", object()),
    _plain("class int", int, "callable"),
    _plain("class RWM", xps.RWM, "callable"),
    Value("its class", _class_of),
    _plain("module", math),
    _plain("list", [1.0, 2.0], "numbers"),
    _plain("list of one", [1.0], "numbers"),
    _plain("falling list", [1.0, 0.5], "numbers"),
    _plain("list from 0 to 1", [0.0, 0.5, 1.0], "numbers"),
    _plain("list of text", ["x", "y"]),
    _plain("nested list", [[1.0, 0.0], [0.0, 1.0]], "rows"),
    _plain("ragged list", [[1.0], [1.0, 2.0]]),
    _plain("list with nan", [1.0, math.nan]),
    _plain("list with None", [1.0, None]),
    _plain("empty list", [], "empty"),
    _plain("tuple", (1.0, 2.0), "numbers"),
    _plain("whole tuple", (1, 2), "whole numbers"),
    _plain("empty tuple", (), "empty"),
    _plain("dict", {"a": 1.0}),
    _plain("empty dict", {}, "empty"),
    _plain("set", {1.0, 2.0}),
    _plain("range", range(3), "whole numbers"),
    Value("generator", lambda library, good: (i / 2 for i in range(3)), "numbers"),
    _plain("a kernel", xps.RWM(0.5), "kernel"),
    _plain("a target", xps.Target(lambda x: -0.5 * (x * x).sum(-1)), "target"),
    _plain("a space", xps.Binary(), "space"),
    _plain("a recorder", xps.Moments(), "recorder"),
    _plain("a schedule", xps.PowerLaw(), "schedule"),
    _plain("function without arguments", lambda: None, "callable"),
    _plain("function that gives None", lambda *a, **k: None, "callable"),
    _plain("function that gives a number", lambda *a, **k: 1.0, "callable"),
    _plain("function that gives text", lambda *a, **k: "x", "callable"),
    _plain("function that gives a list", lambda *a, **k: [1.0, 2.0], "callable"),
    _plain("function that gives a dict", lambda *a, **k: {"a": 1.0}, "callable"),
    _plain("function that raises", _raises, "callable"),
    _plain("function that gives its argument", lambda x, *a, **k: x, "callable"),
]

ARRAYS = [
    _array("array ()", 0.5, "number"),
    _array("array (1,)", [0.5], "chains"),
    _array("array (2,)", [0.5, 0.75], "vector"),
    _array("array (3,)", [0.25, 0.5, 0.75], "triple"),
    _array("array (4,)", np.full(4, 0.5), "chains"),
    _array("array (0,)", np.zeros(0), "empty"),
    _array("array (4, 2)", np.full((4, 2), 0.5), "positions"),
    _array("array (2, 2), definite", [[1.0, 0.25], [0.25, 1.0]], "matrix"),
    _array("array (2, 2), not symmetric", [[1.0, 0.5], [0.0, 1.0]], "square"),
    _array("array (2, 2), indefinite", [[1.0, 2.0], [2.0, 1.0]], "square"),
    _array("array (3, 3)", np.eye(3), "square"),
    _array("array (2, 3)", np.full((2, 3), 0.5), "rectangle"),
    _array("array (1, 1, 1, 1)", np.full((1, 1, 1, 1), 0.5), "deep"),
    _array("array of nan", np.full(4, np.nan), ODD),
    _array("array of inf", np.full(4, np.inf), ODD),
    _array("array of zeros", np.zeros(4), "zeros"),
    _array("negative array", np.full(4, -0.5), "negatives"),
    _array("array of integers", np.full(4, 2), "integers"),
    _array("integer ()", 2, "integer"),
    _array("array of bools", np.full(4, True), ODD),
    _array("complex array", np.full(4, 0.5j), ODD),
    _array("float32 array", np.full(4, 0.5), "chains32", "float32"),
    Value("array of another library", _foreign, "foreign"),
    _plain("array of objects", np.array([0.5, None], dtype=object), ODD),
    _plain("array of numbers as objects", np.array([0.5, 0.5], dtype=object), ODD),
    _plain("array of text", np.array(["x", "y"]), ODD),
    _plain("array of dates", np.array(["2026-01-01"], dtype="datetime64[D]"), ODD),
    _plain("array of records", np.zeros(4, dtype=[("a", "f8")]), ODD),
    _plain("masked array", np.ma.masked_array(np.full(4, 0.5), mask=[0, 0, 0, 1]), "masked"),
    _plain("float16 array", np.full((4,), 0.5, dtype="float16"), "narrow"),
    _plain("long double array", np.full((4,), 0.5, dtype="longdouble"), "wide"),
]

VALUES = [*NUMBERS, *OBJECTS, *ARRAYS]


def strange_positions(library: Library, host: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Start positions that are arrays of a library and cannot be sampled from, or only with care; by name."""
    array = library.array
    found: dict[str, Callable[[], Any]] = {
        "no chains": lambda: array(np.zeros((0, host.shape[-1]))),
        "no coordinates": lambda: array(np.zeros((4, 0))),
        "no axis": lambda: array(np.asarray(0.5)),
        "nan": lambda: array(np.where(host == host, np.nan, host)),
        "inf": lambda: array(np.where(host == host, np.inf, host)),
        "bools": lambda: array(host > 0),
        "complex": lambda: array(host + 0j),
        "list": host.tolist,
        "dict": lambda: {"x": array(host)},
        "tuple of arrays": lambda: (array(host), array(host)),
        "number": lambda: 0.5,
        "text": lambda: "x",
        "none": lambda: None,
        "class": lambda: type(array(host)),
    }
    if library.name == "numpy":
        found |= {
            "float16": lambda: host.astype("float16"),
            "long double": lambda: host.astype("longdouble"),
            "objects": lambda: host.astype(object),
            "text array": lambda: host.astype(str),
            "dates": lambda: host.astype("int64").astype("datetime64[D]"),
            "records": lambda: np.zeros((4, 2), dtype=[("a", "f8")]),
            "masked": lambda: np.ma.masked_array(host, mask=host > 9),
            "masked somewhere": lambda: np.ma.masked_array(host, mask=host == host.flat[0]),
            "ragged": lambda: np.array([np.zeros(2), np.zeros(3)], dtype=object),
            "other byte order": lambda: host.astype(">f8"),
            "matrix subclass": lambda: host.view(np.recarray),
        }
    if library.name == "torch":
        import torch

        found |= {
            "float16": lambda: torch.asarray(host).to(torch.float16),
            "bfloat16": lambda: torch.asarray(host).to(torch.bfloat16),
            "sparse": lambda: torch.asarray(host).to_sparse(),
            "sparse rows": lambda: torch.asarray(host).to_sparse_csr(),
            "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
            "meta": lambda: torch.empty(host.shape, device="meta", dtype=torch.float64),
            "inference": lambda: _in_inference_mode(host),
            "quantised": lambda: torch.quantize_per_tensor(torch.asarray(host).float(), 0.1, 0, torch.qint8),
            "parameter": lambda: torch.nn.Parameter(torch.asarray(host)),
            "module": lambda: torch.nn.Identity(),
            "packed": lambda: torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)]),
        }
    if library.name == "jax":
        import jax

        found |= {
            "float16": lambda: jax.numpy.asarray(host, dtype="float16"),
            "bfloat16": lambda: jax.numpy.asarray(host, dtype="bfloat16"),
            "keys": lambda: jax.random.split(jax.random.key(0), (4, 2)),
            "shape": lambda: jax.ShapeDtypeStruct((4, 2), "float32"),
            "deleted": lambda: _deleted(jax.numpy.asarray(host)),
        }
    return found


def _in_inference_mode(host: np.ndarray) -> Any:
    import torch

    with torch.inference_mode():
        return torch.asarray(host) * 1


def _deleted(array: Any) -> Any:
    array.delete()
    return array
