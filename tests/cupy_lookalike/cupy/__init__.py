"""A look-alike of CuPy over NumPy, for machines without a GPU: see docs/developer/cupy-lookalike.md.

Numbers are NumPy's; the rules of what may be done with arrays are those of CuPy 13.4 and 14.
"""

from numpy import (
    bool_,
    complex64,
    complex128,
    dtype,
    e,
    euler_gamma,
    finfo,
    float16,
    float32,
    float64,
    floating,
    iinfo,
    inexact,
    inf,
    int8,
    int16,
    int32,
    int64,
    integer,
    intp,
    isscalar,
    issubdtype,
    nan,
    newaxis,
    pi,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)

from cupy import _functions, cuda, lookalike
from cupy._core import ndarray, ufunc

globals().update(_functions.table)

from cupy import fft, linalg, random

__version__ = "14.2.0"
