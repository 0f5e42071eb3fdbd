"""npz archives: what is written comes back, and no file makes the reader take more than the file is long."""

import io
import tracemalloc
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest

from xpsample.core.errors import DataError, reading
from xpsample.core.tree import structure, template
from xpsample.files.archives import members, read_arrays, write_arrays

ARRAYS = {
    "file": np.arange(6.0).reshape(2, 3),  # the name of an argument of numpy.savez
    "0/weight": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "empty": np.zeros((0, 3), np.float32),
    "number": np.asarray(1 + 2j),
    "text": np.asarray("three words here"),
    "flags": np.asarray([True, False]),
}


def test_arrays_come_back_and_numpy_reads_them(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    found = read_arrays(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as numpys:
        for name, array in ARRAYS.items():
            for other in (found[name], numpys[name]):
                assert other.dtype == array.dtype and other.shape == array.shape
                np.testing.assert_array_equal(other, array)
    assert found["0/weight"].flags.f_contiguous
    assert list(found) == list(ARRAYS)
    np.savez(tmp_path / "b.npz", x=ARRAYS["number"])
    np.testing.assert_array_equal(read_arrays(tmp_path / "b.npz")["x"], ARRAYS["number"])


def test_the_first_numbers_are_read_in_place(tmp_path):
    write_arrays(tmp_path / "a.npz", {"x": np.arange(12).reshape(4, 3)})
    out = np.zeros((3, 3), int)
    for member in members(tmp_path / "a.npz"):
        member.read_into(out[:2])
    np.testing.assert_array_equal(out, [[0, 1, 2], [3, 4, 5], [0, 0, 0]])


def npy(array, shape=None):
    """The bytes of an array as npy, with a header that tells another shape."""
    file, header = io.BytesIO(), np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header | {"shape": shape or array.shape})
    return file.getvalue() + array.tobytes()


def zipped(path, contents, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def refused(path, most=None):
    """The error of reading a file, which must not take more than 5 MB."""
    tracemalloc.start()
    with (
        pytest.raises(DataError, match=r"cannot be read .*: get another") as error,
        reading(path, DataError, "get another"),
    ):
        read_arrays(path, most)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    return str(error.value)


def test_bombs(tmp_path):
    zeros = np.zeros(50_000_000, np.uint8)
    bomb = zipped(tmp_path / "bomb.npz", {"x.npy": npy(zeros)})
    assert bomb.stat().st_size < 100_000
    assert "would exceed" in refused(bomb)
    assert "would exceed 10000000 bytes" in refused(bomb, most=10_000_000)
    assert read_arrays(bomb, most=60_000_000)["x"].shape == zeros.shape
    small = zipped(tmp_path / "small.npz", {"x.npy": npy(zeros[:3])})
    assert "is compressed" in refused(small) or "would take" in refused(small)
    shape = zipped(tmp_path / "shape.npz", {"x.npy": npy(zeros[:8], (10**12,))}, zipfile.ZIP_STORED)
    assert "not as long as its shape says" in refused(shape)
    many = {f"{i}.npy": npy(zeros[:1_000_000]) for i in range(40)}
    assert "would exceed" in refused(zipped(tmp_path / "many.npz", many), most=10**7)


def test_objects_are_neither_written_nor_read(tmp_path):
    objects = np.asarray([{}], dtype=object)
    with pytest.raises(ValueError, match="Object arrays"):
        write_arrays(tmp_path / "a.npz", {"x": objects})
    assert list(tmp_path.iterdir()) == []
    np.savez(tmp_path / "b.npz", x=objects)
    assert "holds Python objects" in refused(tmp_path / "b.npz")


class Pair(NamedTuple):
    one: Any
    two: Any


def test_structures():
    tree = {"a": (np.ones(1), [None, Pair(1.0, {})]), "b": None}
    assert structure(template(structure(tree))) == structure(tree)
    assert template(structure(tree))["a"][1][1]._fields == ("one", "two")
    with pytest.raises(TypeError, match="only text keys"):
        structure({1: 2.0})
