"""What may be done with the look-alike's arrays, and what CuPy does differently from NumPy."""

import copy
import pickle
import sys

import array_api_compat
import numpy as np
import pytest

from xpsample.core.devices import device_dtypes, missing
from xpsample.core.errors import BackendError
from xpsample.core.registry import backend_named, backend_of, installed_backends

standard = array_api_compat.array_namespace


@pytest.fixture
def a(cupy):
    return cupy.arange(6.0).reshape(2, 3)


IMPLICIT = "Implicit conversion to a NumPy array is not allowed"
ELSEWHERE = r"resides \(1\) is different from the current device \(0\)"
HOST = np.ones((2, 3))

REFUSED = [
    # To the host, but on request.
    (TypeError, IMPLICIT, lambda xp, a, far: np.asarray(a)),
    (TypeError, IMPLICIT, lambda xp, a, far: np.array(a)),
    (TypeError, IMPLICIT, lambda xp, a, far: np.array([a])),
    (TypeError, IMPLICIT, lambda xp, a, far: np.float32(a[0, 0])),
    ((BufferError, RuntimeError), None, lambda xp, a, far: np.from_dlpack(a)),
    # Arrays of the host beside those of a device.
    (TypeError, None, lambda xp, a, far: a + HOST),
    (TypeError, None, lambda xp, a, far: HOST + a),
    (TypeError, None, lambda xp, a, far: a < HOST),
    (TypeError, None, lambda xp, a, far: a @ HOST.T),
    (TypeError, None, lambda xp, a, far: np.add(a, HOST)),
    (TypeError, None, lambda xp, a, far: a.__iadd__(HOST)),
    (TypeError, None, lambda xp, a, far: standard(a).where(a > 0, a, HOST)),
    (TypeError, None, lambda xp, a, far: standard(a).maximum(a, HOST)),
    (TypeError, None, lambda xp, a, far: standard(a).sum(HOST)),
    (TypeError, None, lambda xp, a, far: standard(a).concat([a, HOST])),
    (TypeError, None, lambda xp, a, far: standard(a).stack([HOST, HOST])),
    (TypeError, None, lambda xp, a, far: a + list(HOST)),
    (TypeError, "CPU arrays cannot be directly imported", lambda xp, a, far: xp.from_dlpack(HOST)),
    (ValueError, r"non-scalar numpy\.ndarray cannot be used for fill", lambda xp, a, far: a.__setitem__(0, HOST[0])),
    # What NumPy's arrays and numbers may do.
    (TypeError, "interpreted as an integer", lambda xp, a, far: range(xp.asarray(3))),
    (TypeError, "unhashable", lambda xp, a, far: hash(a)),
    (TypeError, "unhashable", lambda xp, a, far: hash(xp.cuda.Device(0))),
    (ValueError, "more than one element is ambiguous", lambda xp, a, far: bool(a)),
    (TypeError, "0-d", lambda xp, a, far: iter(a[0, 0])),
    (ValueError, "Unsupported dtype", lambda xp, a, far: xp.asarray(["a"])),
    (ValueError, "Unsupported dtype", lambda xp, a, far: xp.asarray([None])),
    (ValueError, "Unsupported dtype", lambda xp, a, far: xp.asarray([{}])),
    (ValueError, "Unsupported dtype", lambda xp, a, far: xp.asarray(np.array([1, "a"], dtype=object))),
    (ValueError, "Unsupported dtype", lambda xp, a, far: xp.asarray(np.longdouble(1))),
    # What CuPy has not.
    (AttributeError, None, lambda xp, a, far: xp.concat([a], axis=0)),
    (AttributeError, None, lambda xp, a, far: xp.vecdot(a, a)),
    (AttributeError, None, lambda xp, a, far: a.mT),
    # Kernels on arrays of another device than the current one.
    (ValueError, ELSEWHERE, lambda xp, a, far: a[0] + far),
    (ValueError, ELSEWHERE, lambda xp, a, far: far + 1),
    (ValueError, ELSEWHERE, lambda xp, a, far: far.sum()),
    (ValueError, ELSEWHERE, lambda xp, a, far: a.__setitem__((0, 0), far[0])),
    (ValueError, ELSEWHERE, lambda xp, a, far: far.__setitem__(0, 1.0)),
    (ValueError, ELSEWHERE, lambda xp, a, far: standard(a).concat([a[0], far])),
    (ValueError, ELSEWHERE, lambda xp, a, far: far[[0, 1]]),
]
"""Errors, their words, and calls: of CuPy, an array (2, 3) on the current device and one (3,) on the other."""


@pytest.mark.parametrize(("error", "words", "call"), REFUSED)
def test_what_is_refused(cupy, a, error, words, call):
    with cupy.cuda.Device(1):
        far = cupy.zeros(3)
    assert a.__dlpack_device__() == (2, 0) and far.__dlpack_device__() == (2, 1)
    with pytest.raises(error, match=words):
        call(cupy, a, far)


# ---- the host --------------------------------------------------------------------------------------------------------


def test_numpys_functions_of_arrays_are_cupys(cupy, a):
    for result in (np.exp(a), np.sum(a), np.multiply(a, 2.0), np.float64(2) * a, np.linalg.norm(a)):
        assert isinstance(result, cupy.ndarray)
    assert not cupy.lookalike.waits


@pytest.mark.parametrize(
    "ask",
    [
        bool,
        float,
        int,
        complex,
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.get(),
        str,
        repr,
        lambda x: f"{x:.1f}",
        lambda x: sys.modules["cupy"].asnumpy(x),
        lambda x: next(iter(x.reshape(1))) > 0 or None,
        lambda x: sys.modules["cupy"].nonzero(x.reshape(1)),
        lambda x: sys.modules["cupy"].unique(x.reshape(1)),
        lambda x: x.reshape(1)[x.reshape(1) > 0],
        lambda x: sys.modules["cupy"].arange(x),
        lambda x: x.device.synchronize(),
        lambda x: sys.modules["cupy"].cuda.get_current_stream().synchronize(),
        lambda x: pickle.dumps(x),
    ],
)
def test_what_makes_the_host_wait_is_noted_and_can_be_forbidden(cupy, ask):
    x = cupy.full((), 3.0)
    ask(x)
    assert len(cupy.lookalike.waits) == 1
    message = "makes the host wait for the device in the loop"
    with pytest.raises(cupy.lookalike.HostWaits, match=message), cupy.lookalike.no_waits("in the loop"):
        ask(x)
    ask(x)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_results_of_no_dimension_are_arrays(cupy, a):
    for result in (a.sum(), a[0, 0], cupy.exp(a[0, 0]), a.max(), -a[1, 1], cupy.vdot(a, a), cupy.float32(1) + a[0, 0]):
        assert isinstance(result, cupy.ndarray) and result.shape == ()


def test_indices_past_the_end_wrap_around(cupy):
    x = cupy.arange(3)
    assert x[cupy.asarray([1, 3, -1])].tolist() == cupy.take(x, cupy.asarray([1, 3, -1])).tolist() == [1, 0, 2]
    assert cupy.take_along_axis(x, cupy.asarray([4]), 0).tolist() == [1]
    assert x.reshape(1, 3, 1)[0, ..., [3], 0].tolist() == [0]
    with pytest.raises(IndexError):
        x[3]
    with pytest.raises(cupy.lookalike.Undefined):
        x[cupy.asarray([1, 4])] = cupy.asarray([5, 6])


def test_what_cupys_linear_algebra_does_not(cupy):
    a, indefinite = cupy.eye(3) * cupy.ones((2, 1, 1)), cupy.asarray([np.eye(2), -np.eye(2)])
    with pytest.raises(ValueError, match="must have"):
        cupy.linalg.solve(a, cupy.ones((3, 2)))  # no broadcasting
    factors = cupy.linalg.cholesky(indefinite).get()  # not an error
    assert np.isfinite(factors[0]).all()
    assert np.isnan(factors[1]).all()


# ---- devices and streams ---------------------------------------------------------------------------------------------


def test_new_arrays_are_on_the_current_device(cupy):
    with cupy.cuda.Device(1) as one:
        x = cupy.zeros(2)
        assert x.device == one == cupy.cuda.Device()
    assert cupy.zeros(2).device == cupy.cuda.Device(0) != one
    assert x[1:].device == x.reshape(1, 2).device == copy.deepcopy(x).device == one
    assert x.copy().device == cupy.asarray(x).device == cupy.cuda.Device(0)
    assert array_api_compat.to_device(cupy.zeros(2), one).device == one


def test_devices_that_are_not_there(cupy):
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(2).use()
    cupy.lookalike.DEVICES = 0
    assert not cupy.cuda.is_available()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
        cupy.cuda.runtime.getDeviceCount()


def test_work_is_pending_until_somebody_waits(cupy):
    null = cupy.cuda.get_current_stream()
    with cupy.cuda.Stream() as stream:
        cupy.zeros(2) + 1
        assert not stream.done
    assert null.done
    stream.synchronize()
    assert stream.done
    x = cupy.zeros(2) + 1
    assert not null.done
    x.get()
    assert null.done


def test_a_generator_belongs_to_its_device(cupy):
    numbers = cupy.random.Generator(cupy.random.Philox4x3210(1))
    assert numbers.random((2, 3), dtype=cupy.float32).dtype == cupy.float32
    with cupy.cuda.Device(1), pytest.raises(RuntimeError, match="allocated in a different device"):
        numbers.standard_normal(3)


# ---- installed, and gone again ---------------------------------------------------------------------------------------


def test_the_real_backend_is_loaded_for_its_arrays(cupy, a):
    assert "cupy" in installed_backends()
    assert backend_of(a) is backend_named("cupy")
    assert sys.modules[type(backend_of(a)).__module__].cupy is cupy
    assert array_api_compat.array_namespace(a) is sys.modules["array_api_compat.cupy"]
    assert array_api_compat.is_cupy_array(a)
    assert [str(place) for place in device_dtypes(["cupy"])] == [
        f"cupy-cuda{i}-{dtype}" for i in (0, 1) for dtype in ("float32", "float64")
    ]


def test_a_machine_without_a_device(cupy):
    cupy.lookalike.DEVICES = 0
    assert missing(["cupy"]) == ["cupy: skipped, no device"]
    with pytest.raises(BackendError, match="finds no device on this machine"):
        device_dtypes(["cupy"])


def test_nothing_is_left_of_it():
    from tests.cupy_lookalike import installed

    def state():
        parts = {name: module for name, module in sys.modules.items() if name.startswith(installed.ROOTS)}
        return parts, list(sys.path), vars(array_api_compat).get("cupy"), installed_backends()

    before = state()
    with installed.installed() as first:
        kind = backend_of(first.zeros(2))
        assert state()[0] != before[0]
    assert state() == before
    with installed.installed() as again:
        assert again is first
        assert backend_of(first.zeros(2)) is kind
    assert state() == before
