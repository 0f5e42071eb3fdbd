"""Rows that are read by number, from files and datasets: the same draws as from arrays in memory, or a clear error."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.conftest import open_library
from xpsample.core.errors import (
    BackendError,
    CapabilityError,
    CheckpointError,
    FunctionError,
    HyperparameterError,
    LogDensityError,
    XpsampleError,
)
from xpsample.core.registry import to_host
from xpsample.metrics.stein import RBF
from xpsample.srld import SRLD, Rolling
from xpsample.targets import rows as module
from xpsample.targets.bound import RowNumbers
from xpsample.targets.rows import RowsByNumber

N = 300
ROWS = np.random.default_rng(0).normal(2.0, 1.0, size=(N, 2))
START = np.full((3, 2), 2.0)
BATCHES = xps.Minibatch(xps.SGNHT(0.01, friction=10.0), 20)


class Dataset:
    """A dataset as torch's: a length, and a row for each number."""

    def __init__(self, row, length=N):
        self.row, self.length, self.read = row, length, []

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        self.read.append(i)
        return self.row(i)


def mapped(folder, rows=ROWS):
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r")


def in_zarr(folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(folder / "rows.zarr", shape=ROWS.shape, chunks=(70, 2), dtype=ROWS.dtype)
    array[:] = ROWS
    return array


def in_hdf5(folder):
    return pytest.importorskip("h5py").File(folder / "rows.h5", "w").create_dataset("rows", data=ROWS)


def of_torch(folder):
    torch = pytest.importorskip("torch")
    return Dataset(lambda i: torch.as_tensor(ROWS[i]))


def log_prior(x):
    return -0.5 * array_namespace(x).sum(x**2, axis=-1)


def prior_score(x):
    return -x


def log_likelihood(x, rows, of=lambda rows: rows):
    return -0.5 * array_namespace(x).sum((of(rows) - x[..., None, :]) ** 2, axis=(-2, -1))


def likelihood_score(x, rows, of=lambda rows: rows):
    return array_namespace(x).sum(of(rows) - x[..., None, :], axis=-2)


def posterior(rows, own_scores=True, of=None, **settings):
    of_rows = [f if of is None else partial(f, of=of) for f in (log_likelihood, likelihood_score)]
    scores = (prior_score, of_rows[1]) if own_scores else ()
    return xps.posterior(log_prior, of_rows[0], rows, *scores, **settings)


def drawn(target, library, kernel=BATCHES, draws=40, **settings):
    x0 = library if isinstance(library, np.ndarray) else library.array(START)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xps.sample(target, kernel, x0, draws, seed=xps.Portable(1), progress=False, **settings)


def assert_same(rows, library, *args, of=None, own_scores=True, rtol=1e-9, **settings):
    """The draws are those of the rows in memory; the trace of the first."""
    targets = posterior(rows, own_scores, of), posterior(ROWS, own_scores)
    there, here = (drawn(target, library, *args, **settings) for target in targets)
    np.testing.assert_allclose(to_host(there.draws), to_host(here.draws), rtol=rtol)
    return there


@pytest.mark.parametrize("store", [mapped, in_zarr, in_hdf5, of_torch])
def test_the_draws_are_those_of_rows_in_memory(store, library, tmp_path):
    assert assert_same(store(tmp_path), library).run_statistics.evaluations["score"] == 1


BASES = {
    "cycles": xps.ULA(xps.CosineCycles(1e-3, 10)),
    "SGHMC": xps.UnderdampedLangevin(0.01),
    "SRLD": SRLD(xps.ULA(1e-3), 2.0, Rolling(2, 2), RBF(1.0)),
    "tuned": xps.ULA(),
}


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_every_kernel_reads_the_same_batches(base, common, tmp_path):
    assert_same(mapped(tmp_path), START, xps.Minibatch(base, 20, common), rtol=0)


@pytest.mark.parametrize("settings", [{"shards": 3}, {"until": xps.Until(ess=5), "draws": 600}])
def test_shards_and_a_stopping_rule(settings, tmp_path):
    assert_same(in_zarr(tmp_path), START, rtol=0, **settings)


@pytest.mark.parametrize("own_scores", [False, True])
def test_derivatives_pass_over_what_is_read(own_scores, differentiating, tmp_path):
    rows = {"a": mapped(tmp_path), "b": np.arange(N)}
    assert_same(rows, differentiating, of=lambda rows: rows["a"], own_scores=own_scores)


@pytest.mark.parametrize(("most", "size"), [(7, 2**26), (100, 2**26), (299, 2**26), (N, 2**26), (N, 160)])
def test_all_rows_are_summed_in_parts(most, size, library, monkeypatch):
    """An exact kernel evaluates all rows, of which at most so many are in memory."""
    monkeypatch.setattr(module, "PART", most)
    monkeypatch.setattr(module, "BYTES", size)
    counted, seen = Dataset(lambda i: ROWS[i]), []
    assert_same(counted, library, xps.MALA(1e-3), 3, of=lambda rows: seen.append(rows.shape[-2]) or rows)
    assert max(seen) == min(most, size // 16, N) and set(counted.read) == set(range(N))


@pytest.mark.slow
@pytest.mark.parametrize("own_scores", [False, True])
def test_parts_have_derivatives(own_scores, differentiating, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "PART", 70)
    assert_same(mapped(tmp_path), differentiating, xps.HMC(0.02, 3), 5, own_scores=own_scores)


def test_floats_get_the_dtype_of_the_positions_and_integers_stay(library32):
    dtypes = {}

    def of(rows):
        dtypes.update({i: str(leaf.dtype).rpartition(".")[2] for i, leaf in enumerate(rows)})
        return rows[0] + 0 * library32.xp.astype(rows[2], rows[0].dtype)

    data = Dataset(lambda i: (ROWS[i], i, np.full(2, i % 256, dtype=np.uint8)))
    assert_same(data, library32, draws=5, of=of, rtol=1e-4)
    assert dtypes[0] == "float32" and dtypes[1] in ("int32", "int64") and dtypes[2] == "uint8"


@pytest.mark.parametrize("dtype", [">f8", ">i4"])
@pytest.mark.parametrize("store", [np.asarray, "memmap", "dataset"], ids=str)
def test_any_order_of_bytes(dtype, store, library, tmp_path):
    whole = np.round(10 * ROWS)
    rows = whole.astype(dtype)
    if store is not np.asarray:
        rows = mapped(tmp_path, rows) if store == "memmap" else Dataset(lambda i, rows=rows: rows[i])
    targets = (posterior(r, of=lambda rows: library.xp.astype(rows, library.xp.float64)) for r in (rows, whole))
    there, here = (library.host(drawn(target, library, draws=5).draws) for target in targets)
    np.testing.assert_allclose(there, here, rtol=1e-9)


class Named(Dataset):
    """A table whose columns have names, with a shape, as those of Hugging Face are."""

    shape = (N, 1)

    def __getitem__(self, i):
        return {"a": self.row(i)} if isinstance(i, int) else {"a": [self.row(j) for j in i]}


def test_a_table_with_a_shape_is_read_row_by_row():
    assert_same(Named(lambda i: ROWS[i]), START, of=lambda rows: rows["a"], rtol=0)


class Masked(Dataset):
    """A file with missing values, as netCDF4 reads them."""

    shape, dtype = ROWS.shape, ROWS.dtype

    def __getitem__(self, i):
        mask = np.broadcast_to(np.asarray(i)[:, None] == self.row, ROWS[i].shape)
        return np.ma.masked_array(np.where(mask, 1e30, ROWS[i]), mask)


def test_missing_values_are_no_numbers():
    with pytest.raises(HyperparameterError, match="masked values, which must be filled"):
        posterior(Masked(0))
    with pytest.raises(FunctionError, match="masked values, which must be filled"):
        drawn(posterior(Masked(77)), START, draws=100)
    assert_same(Masked(-1), START, rtol=0)


def test_a_batch_is_all_that_is_read(library):
    """The run holds no rows; a step reads its batch, and checks and diagnosis at most 256 rows at a time."""
    rows = Dataset(lambda i: ROWS[i % N], 10_000)
    target = posterior(rows)
    bound = target.prepare(library.array(START), BATCHES.requires)
    assert bound.data.rows.numbers.shape == (10_000,) and bound.data.rows.numbers.dtype == library.xp.int32
    rows.read.clear()
    trace = drawn(target, library, xps.Minibatch(xps.ULA(1e-4), 5, common=True), 500, recorders=[xps.Moments()])
    assert len(rows.read) < 500 * 5 + 40 * 256
    assert trace.run_statistics.evaluations["score"] == 1


def test_a_run_resumes_bit_for_bit_and_not_with_other_rows(library, tmp_path):
    def made(rows, draws, checkpoint=tmp_path / "run"):
        return library.host(drawn(posterior(rows), library, draws=draws, checkpoint=checkpoint).draws)

    once = made(mapped(tmp_path), 60, None)
    made(mapped(tmp_path), 20)
    np.testing.assert_array_equal(made(np.load(tmp_path / "rows.npy", mmap_mode="r"), 60), once)
    with pytest.raises(CheckpointError, match=r"(log density|score) at"):
        made(mapped(tmp_path, ROWS + 1e-6), 80)


@pytest.mark.parametrize(
    ("view", "order", "by_path"),
    [
        (lambda a: a, "C", True),
        (lambda a: a, "F", True),
        (lambda a: a[100:], "C", True),
        (lambda a: a[100:], "F", False),
        (lambda a: a[10:].reshape(-1, 1), "C", True),
        (lambda a: a[::2], "C", False),
        (lambda a: a.T[1:], "F", True),
    ],
    ids=["whole", "whole-F", "part", "part-F", "shape", "steps", "transposed"],
)
def test_workers_open_a_memory_map_by_its_path(view, order, by_path, tmp_path):
    rows = view(mapped(tmp_path, np.asarray(np.tile(ROWS, (100, 1)), order=order)))
    text = pickle.dumps(RowsByNumber(rows))
    np.testing.assert_array_equal(pickle.loads(text)._read(np.arange(len(rows))), rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pickle.loads(text)))._read(np.arange(len(rows))), rows)
    assert (len(text) < 1000) == by_path


def test_a_private_memory_map_is_pickled_with_its_changes(tmp_path):
    mapped(tmp_path)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="c")
    rows[0] = 77.0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(RowsByNumber(rows)))._stores, rows)


def test_a_posterior_of_functions_of_a_module_is_pickled(tmp_path):
    """As process pools of the standard library do, without loky or dask."""
    for rows in (ROWS, mapped(tmp_path)):
        target = posterior(rows)
        there, here = (drawn(t, START) for t in (pickle.loads(pickle.dumps(target)), target))
        np.testing.assert_array_equal(there.draws, here.draws)


def test_a_worker_that_finds_other_rows_says_so(tmp_path):
    """When it reads, since an error while a target is received would end the worker."""
    text, numbers = pickle.dumps(RowsByNumber(mapped(tmp_path)).summed(log_likelihood)), RowNumbers(np.arange(N))
    other = tmp_path / "other.npy"
    for change, kind, message in (
        (ROWS + 1.0, FunctionError, "rows.npy has another first row in this process"),
        (ROWS[:10], FunctionError, "some cannot be read"),
        (None, FileNotFoundError, "rows.npy"),
    ):
        if change is None:
            (tmp_path / "rows.npy").unlink()
        else:
            np.save(other, change)
            other.replace(tmp_path / "rows.npy")
        with pytest.raises(kind, match=message):
            pickle.loads(text)(START, numbers)


def loader():
    return pytest.importorskip("torch").utils.data.DataLoader(ROWS, batch_size=20)


def stream():
    class Stream(pytest.importorskip("torch").utils.data.IterableDataset):
        def __iter__(self):
            return iter(ROWS)

    return Stream()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (loader, r"by number, so that a run can resume; got a DataLoader.*such as loader\.dataset"),
        (stream, "by number, so that a run can resume"),
        (lambda: iter(ROWS), r"so that a run can resume; got an? \w+.*write the rows to a file"),
        (lambda: Dataset(None, 0), r"the same number of rows, at least 1; got \{'': 0\}"),
        (lambda: {"a": Dataset(lambda i: i), "b": ROWS[:5]}, r"the same number.*got \{'a': 300, 'b': 5\}"),
        (lambda: Dataset(lambda i: {}[i]), "rows cannot be read by number: KeyError: 0"),
        (lambda: Dataset(lambda i: np.zeros(1 + i)), "rows cannot be read by number: ValueError"),
        (lambda: Dataset(lambda i: None), "at least 1"),
        (lambda: Dataset(lambda i: "a"), "rows must hold real numbers"),
        (lambda: None, "every leaf of rows has the rows on its first axis"),
        (lambda: "rows.npy", "rows must be an array; got 'rows.npy'"),
        (lambda: b"rows.npy", "rows must be an array; got b'rows.npy'"),
    ],
)
def test_what_cannot_be_read_by_number_is_refused(rows, message):
    with pytest.raises(HyperparameterError, match=message):
        posterior(rows())


def test_rows_of_several_sets_are_arrays():
    with pytest.raises(HyperparameterError, match=r"with sets=1, every leaf of rows must be an array; got <"):
        posterior(Dataset(lambda i: i), sets=1)


def test_a_sampler_is_not_called_with_other_rows(tmp_path):
    """They are read by the functions of the target: other numbers would choose other rows of the same file."""
    sampler = xps.Sampler(posterior(mapped(tmp_path)), BATCHES, START, 5, progress=False)
    for rows in (ROWS, np.arange(N), np.load(tmp_path / "rows.npy", mmap_mode="r")):
        with pytest.raises(CapabilityError, match="cannot replace rows in files or datasets"):
            sampler(1, data=rows)


@pytest.mark.parametrize("size", [20, None], ids=["batches", "all"])
def test_missing_values_are_suspected_at_the_start(size, tmp_path):
    """Of the rows, and not of their numbers, the first of which is 0."""
    rows = mapped(tmp_path, np.where(np.arange(N)[:, None] == 6, np.nan, ROWS))
    kernel = xps.MALA(1e-3) if size is None else xps.Minibatch(xps.ULA(1e-4), size)
    for call in (lambda: drawn(posterior(rows), START, kernel), lambda: xps.start(posterior(rows), START[0], seed=1)):
        with pytest.raises(LogDensityError, match=r"^rows, which are read when they are used, may have val"):
            call()


def fail(i):
    raise OSError("the disk is away")


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (lambda i: np.zeros(2 + (i == 77)), FunctionError, "of rows 0 to 299, some cannot be read: ValueError"),
        (lambda i: 1 / (i - 77) + ROWS[i], FunctionError, "of rows 0 to 299, some cannot be read: ZeroDivisionError"),
        (lambda i: np.ones(2) * 0.5 if i == 77 else np.ones(2, dtype=int), FunctionError, "dtype int64, as the first"),
        (lambda i: fail(i) if i == 77 else ROWS[i], OSError, "the disk is away"),
        (lambda i: ROWS[i] + 100 * np.random.default_rng().random(), LogDensityError, "and then"),
    ],
    ids=["shape", "error", "dtype", "disk", "random"],
)
def test_a_row_that_is_another_one_is_an_error(row, error, message):
    with pytest.raises(error, match=message):
        drawn(posterior(Dataset(row)), START, xps.Minibatch(xps.ULA(1e-4), 200), 50)


class Own(Exception):
    """A user's error."""


@pytest.mark.parametrize("raised", [OSError("away"), Own("mine"), ValueError("bad"), StopIteration(), MemoryError("0")])
def test_an_error_late_in_a_run_is_the_same_on_every_library(raised, library):
    def row(i):
        if len(rows.read) > 5000:
            raise raised
        return ROWS[i]

    rows = Dataset(row)
    fine = isinstance(raised, (ValueError, StopIteration))
    kind, text = (FunctionError, "of rows .*some cannot be read") if fine else (type(raised), str(raised))
    with pytest.raises(kind, match=text) as error:
        drawn(posterior(rows), library, draws=500)
    assert "Traceback" not in str(error.value) and 0 < error.value.trace.draws.shape[0] < 500


def test_rows_that_all_have_another_shape_are_an_error():
    total = RowsByNumber(Dataset(lambda i: np.zeros(2 + (i == 77)))).summed(lambda x, rows: rows.sum())
    with pytest.raises(FunctionError, match=r"rows must have shape \(2,\)"):
        total(START, RowNumbers(np.asarray([77, 77])))


@pytest.mark.slow
def test_integers_that_jax_cannot_hold(tmp_path):
    library = open_library("jax", "float32")
    rows = Dataset(lambda i: np.full(2, 2**40 * (i == 77), dtype=np.int64))
    with pytest.raises(XpsampleError, match="dtype int32, as the first row"):
        drawn(posterior(rows), library, xps.MALA(1e-4), 5)


@pytest.mark.slow
def test_a_compiled_step_of_torch_reads_no_file(tmp_path):
    with pytest.raises(BackendError, match="leave compile=True out"):
        drawn(posterior(mapped(tmp_path)), open_library("torch", "float64"), draws=5, compile=True)
