"""Frozen values, such as kernels, and the declarations of their hyperparameters."""

import math
from abc import ABC
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, dataclass_transform

from xpsample.core.checks import (
    LARGEST,
    check_count,
    check_flag,
    check_function,
    check_instance,
    check_number,
    check_numbers,
    check_text,
)
from xpsample.core.hyperparameters import PER_CHAIN, VECTOR, ToBeTuned, check_range


def checked(
    check: Callable[[str, Any], Any] | None,
    *,
    default: Any = MISSING,
    derive: Callable[[str, Any], Any] | None = None,
    factory: Callable[[Any], Any] | None = None,
    tune: ToBeTuned | None = None,
    unless: str | None = None,
    only_with: str | None = None,
    kind: dict[str, Any] | None = None,
    repr: bool = True,
) -> Any:
    """Declare a field that is checked when the value is made.

    Parameters
    ----------
    check : callable
        ``check(name, value)`` returns what the field holds, or raises HyperparameterError. It is not called for None
        or a rule in a field that is None by default, or tuned. None where `derive` checks.
    default : optional
        Without one the field must be given.
    derive : callable, optional
        ``derive(name, value)`` returns what steps use in place of the value, ``self.derived(name)``; it is called for
        None, too. While a rule tunes the field, the rule's value stands for what is derived.
    factory : callable, optional
        ``factory(owner)`` returns the value that stands for None, from the other fields.
    tune : Rule, optional
        The rule that finds the value in the warm-up where it is None.
    unless : str, optional
        Another field that stands for this one where it is given.
    only_with : str, optional
        Another field: where that one is given, this one keeps its default, which is the unit that it was given in.
    kind : dict, optional
        What an array in the field is checked against, such as `PER_CHAIN`.
    repr : bool, optional
        Whether the value is shown.
    """
    optional = default is None
    metadata = (kind or {}) | {"check": check, "optional": optional, "derive": derive, "factory": factory}
    if tune is not None:
        metadata |= {"tuned": tune, "unless": unless, "only_with": only_with}
    return field(default=default, repr=repr, metadata=metadata)


def _range(gt: float | None, ge: float | None, lt: float | None, le: float | None) -> dict[str, Any]:
    """The arguments of `check_range` and `check_number`."""
    low = gt if ge is None else ge
    high = le if lt is None else lt
    return {
        "low": -math.inf if low is None else low,
        "high": math.inf if high is None else high,
        "closed": ge is not None,
        "below": lt is not None,
    }


def parameter(
    *,
    default: Any = MISSING,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    tune: ToBeTuned | None = None,
    unless: str | None = None,
    only_with: str | None = None,
) -> Any:
    """Declare a real number, or an array which broadcasts against the chain axes.

    Parameters
    ----------
    default, tune, unless, only_with : optional
        As in `checked`.
    gt, ge, lt, le : float, optional
        The value is greater than, at least, below, or at most this.

    Examples
    --------
    >>> from xpsample.kernels import Kernel
    >>> class Walk(Kernel):
    ...     step_size: float = parameter(gt=0)
    ...     requires = noise = init = step = None
    >>> Walk(step_size=0.5)
    Walk(step_size=0.5)
    """
    check = partial(check_range, **_range(gt, ge, lt, le))
    return checked(check, default=default, tune=tune, unless=unless, only_with=only_with, kind=PER_CHAIN)


def vector(*, default: Any = None, tune: ToBeTuned | None = None, only_with: str | None = None) -> Any:
    """Declare an array of shape (dim,), or a number for all coordinates."""
    return checked(check_range, default=default, tune=tune, only_with=only_with, kind=VECTOR)


def number(
    *,
    default: Any = MISSING,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    infinite: bool = False,
) -> Any:
    """Declare a real number, the same for all chains."""
    return checked(partial(check_number, **_range(gt, ge, lt, le), infinite=infinite), default=default)


def numbers(
    *,
    default: Any = MISSING,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    least: int = 1,
) -> Any:
    """Declare a sequence of real numbers, `least` at least; the field holds a tuple."""
    return checked(partial(check_numbers, **_range(gt, ge, lt, le), least=least), default=default)


def count(*, default: Any = MISSING, ge: int = 1, le: int = LARGEST) -> Any:
    """Declare a whole number."""
    return checked(partial(check_count, least=ge, most=le), default=default)


def flag(*, default: Any = MISSING) -> Any:
    """Declare True or False."""
    return checked(check_flag, default=default)


def text(*, default: Any = MISSING) -> Any:
    """Declare text that is not empty."""
    return checked(check_text, default=default)


def instance(kind: type | tuple[type, ...], example: str, *, default: Any = MISSING) -> Any:
    """Declare a value of a class; messages name the `example`."""
    return checked(partial(check_instance, kind=kind, example=example, optional=default is None), default=default)


def function(signature: str, *, default: Any = MISSING) -> Any:
    """Declare a function; messages name the `signature`."""
    return checked(partial(check_function, signature=signature, optional=default is None), default=default)


@dataclass_transform(
    eq_default=False,
    frozen_default=True,
    field_specifiers=(field, checked, parameter, vector, number, numbers, count, flag, text, instance, function),
)
class FrozenDataclass(ABC):
    """Base of values that cannot be changed: each subclass is a frozen dataclass whose fields are checked.

    Fields are declared by `parameter`, `count`, `instance` and so on, or by `dataclasses.field` where there is nothing
    to check. The class accepts the arguments of `dataclasses.dataclass`; values are compared by identity unless
    ``eq=True``. A method ``__check_init__`` checks fields together. `dataclasses.replace` makes a changed copy.

    Examples
    --------
    >>> class Interval(FrozenDataclass):
    ...     low: float = number(default=0.0)
    ...     high: float = number(default=1.0)
    ...
    ...     def __check_init__(self) -> None:
    ...         if self.low > self.high:
    ...             raise ValueError("low must be at most high")
    >>> Interval(high=3)
    Interval(low=0.0, high=3)
    """

    _declared: ClassVar[tuple[Field[Any], ...]]
    """The fields with their declarations, which a decorator `dataclass` on the class would remove."""

    _derived: ClassVar[tuple[Field[Any], ...]]
    """Values derived from fields, each under the name of the field after an underscore."""

    def __init_subclass__(cls, eq: bool = False, **settings: Any) -> None:
        super().__init_subclass__()
        for name in ("__init__", "__post_init__"):
            if name in vars(cls):
                raise TypeError(f"{cls.__name__}.{name} would replace the checks of the fields: name it __check_init__")
        for f in getattr(cls, "_declared", ()):
            if "check" in f.metadata and f.name in vars(cls) and not isinstance(vars(cls)[f.name], Field):
                raise TypeError(
                    f"{cls.__name__}.{f.name} is declared in a base class and would lose its checks: declare it again, "
                    f"such as {f.name}: float = parameter(default={vars(cls)[f.name]!r})"
                )
        made: Any = dataclass(frozen=True, eq=eq, **settings)(cls)
        del made.__setattr__, made.__delattr__  # use the base class's methods, also if there is a decorator
        cls._declared = fields(made)
        cls._derived = tuple(_derived_field(f.name) for f in cls._declared if f.metadata.get("derive") is not None)

    def __post_init__(self) -> None:
        declared = [f for f in self._declared if "check" in f.metadata]
        for f in sorted(declared, key=lambda f: f.metadata["factory"] is not None):
            if getattr(self, f.name) is None and f.metadata["factory"] is not None:
                object.__setattr__(self, f.name, f.metadata["factory"](self))
            value, check, derive = getattr(self, f.name), f.metadata["check"], f.metadata["derive"]
            optional = f.metadata["optional"] or "tuned" in f.metadata
            unset = optional and (value is None or isinstance(value, ToBeTuned))
            if not (check is None or unset):
                object.__setattr__(self, f.name, check(f.name, value))
            if derive is not None:
                object.__setattr__(self, f"_{f.name}", derive(f.name, getattr(self, f.name)))
        for cls in reversed(type(self).__mro__):  # methods of base classes, too, as in Equinox
            if "__check_init__" in vars(cls):
                vars(cls)["__check_init__"](self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def derived(self, name: str) -> Any:
        """Value that steps use in place of a field's: see `checked`."""
        return getattr(self, f"_{name}")


def _derived_field(name: str) -> Field[Any]:
    derived: Field[Any] = field(init=False, repr=False)
    derived.name = f"_{name}"
    return derived
