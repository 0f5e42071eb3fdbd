"""A look-alike of CuPy over NumPy, for machines without a GPU: see docs/developer/cupy-lookalike.md.

Numbers are NumPy's; the rules of what may be done with arrays are those of CuPy 13.4 and 14.
"""

import numpy as _numpy

from cupy import _functions
from cupy import cuda as cuda
from cupy import fft as fft
from cupy import linalg as linalg
from cupy import lookalike as lookalike
from cupy import random as random
from cupy._core import ndarray as ndarray
from cupy._core import ufunc as ufunc

__version__ = "14.2.0"

_FROM_NUMPY = """
bool_ broadcast_shapes complex64 complex128 complexfloating dtype e euler_gamma finfo float16 float32 float64 floating
generic iinfo inf inexact int8 int16 int32 int64 integer intp issubdtype nan ndindex newaxis number pi promote_types
s_ signedinteger uint8 uint16 uint32 uint64 unsignedinteger
"""
globals().update({name: getattr(_numpy, name) for name in _FROM_NUMPY.split()})
globals().update(_functions.table)
