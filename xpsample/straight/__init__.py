"""Straight-line steps: what the Python code of a step calls, written down once and then called without that code.

An eager library pays for every NamedTuple, method and look-up of a step again and again; with few chains that is half
of the time. Here a step runs once on `tape.Symbol` arrays, which note what is called on them, and the calls become a
plain Python function with the loop around it (`source`, `steps`). They are the calls that the step itself would make,
on the same values, so the chain is the same. Functions of the user's are called as they are, at every step, unless they
are said to be pure (`opaque`, `pure`).

What cannot be written down, such as a branch on a value, raises, and the step runs as it is.
"""

from xpsample.straight.tape import opaque, pure

__all__ = ["opaque", "pure"]
