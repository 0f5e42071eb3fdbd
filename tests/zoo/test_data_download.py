"""Downloads: source files rebuilt from the data folder's arrays and served in place of the network.

What is checked is that a converter inverts the format as it is written here; the digests are those of the data folder.
"""

import csv
import functools
import hashlib
import http.server
import io
import sys
import threading
import types
import zipfile

import numpy as np
import pytest

import xpsample.zoo.data as data
from xpsample.core.errors import DataError
from xpsample.experiments.data import CONVERTERS, DATASETS, load_dataset
from xpsample.zoo.data import arrays_digest

KEPT = ("deblur_images", "mnist_ebm_uvadlc")
SMALL = "tsp_eil"
# The real one: the fixture no_downloads of tests/conftest.py replaces it for the time of the session.
FETCH = data._fetch


def _text(rows, delimiter):
    return "\n".join(delimiter.join(str(value) for value in row) for row in rows).encode() + b"\n"


def _uci(arrays, folder):
    # The target goes first, a column that is neither feature nor target next, and the features follow backwards.
    X, y = arrays["X"], arrays["y"]
    table = np.column_stack([y, np.full(len(y), 7.0), X[:, ::-1]])
    base = f"UCI_Datasets/{folder}/data"
    return {
        f"{base}/data.txt": _text(table, " "),
        f"{base}/index_features.txt": _text([[float(2 + i)] for i in range(X.shape[1])][::-1], " "),
        f"{base}/index_target.txt": b"0\n",
    }


def _wine(arrays):
    return {"winequality-white.csv": _text(np.column_stack([arrays["X"], arrays["y"]]), ",")}


def _mushroom(arrays):
    columns = [
        [order[code] for code in codes] for order, codes in zip(arrays["categories"], arrays["codes"].T, strict=True)
    ]
    rows = zip(*[["ep"[label] for label in arrays["y"]], *columns], strict=True)
    return {"bandits/data/mushroom.data": _text(rows, ",")}


def _cities(arrays):
    rows = _text([(i + 1, *city) for i, city in enumerate(arrays["eil51"])], " ")
    head = b"NAME : eil51\nTYPE : TSP\nDIMENSION : 51\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n"
    return {"data/eil51.tsp": head + rows + b"EOF\n"}


def _octamers(arrays):
    letters = str(arrays["alphabet"])
    rows = [
        ("".join(letters[c] for c in codes), 1 if y else -1)
        for codes, y in zip(arrays["codes"], arrays["y"], strict=True)
    ]
    return {"BinaryBNN/data/1625.txt": _text(rows, ",")}


def _compas(arrays):
    names = [*arrays["numeric_names"], "sex", "race", "name", "days_b_screening_arrest", "is_recid"]
    names += ["c_charge_degree", "score_text", "priors_count", "two_year_recid"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)

    def row(counts, sex, race, days, recid, degree, score, y):
        writer.writerow([*counts, sex, race, "a, b", days, recid, degree, score, counts[0], y])

    # One row for each reason to leave a row out, before the first; the days of those that stay reach both bounds.
    left_out = [("", 0, "F", "Low"), (31, 0, "F", "Low"), (-31, 0, "M", "Low"), (0, -1, "F", "Low")]
    for days, recid, degree, score in [*left_out, (0, 0, "O", "Low"), (0, 0, "F", "N/A")]:
        row([1, 0, 0, 0, 30], "Male", "Other", days, recid, degree, score, 0)
    for i, (counts, sex, race, y) in enumerate(
        zip(arrays["numeric"], arrays["sex"], arrays["race"], arrays["y"], strict=True)
    ):
        days, degree = (-30, 30, 0, -1)[i % 4], "FM"[i % 2]
        row(counts, arrays["sex_names"][sex], arrays["race_names"][race], days, y, degree, "High", y)
    return {"compas-scores-two-years.csv": out.getvalue().encode()}


def _blog(arrays):
    # A row that is not drawn holds the least value of each column; one holds the greatest.
    def lines(total, rows, X, y):
        filler = ",".join(str(value) for value in arrays["full_min"]) + ",0\n"
        table = [filler] * total
        for row, values, label in zip(rows, X, y, strict=True):
            table[row] = ",".join(map(str, values)) + f",{label}\n"
        return table

    train = lines(52_397, arrays["train_rows"], arrays["X_train"], arrays["y_train"])
    test = lines(7624, arrays["test_rows"], arrays["X_test"], arrays["y_test"])
    train[next(i for i in range(len(train)) if i not in set(arrays["train_rows"].tolist()))] = (
        ",".join(str(value) for value in arrays["full_max"]) + ",1424\n"
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("BlogFeedback/blogData_test-2012.02.02.csv", "".join(test[4000:]))
        archive.writestr("BlogFeedback/blogData_test-2012.02.01.csv", "".join(test[:4000]))
        archive.writestr("__MACOSX/BlogFeedback/._blogData_train.csv", "no table")
        archive.writestr("BlogFeedback/blogData_train.csv", "".join(train))
    return {"data/BlogFeedback.zip": content.getvalue()}


def _png(pixels):
    image = pytest.importorskip("PIL.Image")
    content = io.BytesIO()
    image.fromarray(pixels).save(content, "PNG", compress_level=1)
    return content.getvalue()


def _js(labels):
    return f"var labels=[{', '.join(map(str, labels))}];\n".encode()


def _mnist(arrays):
    files, labels = {}, np.zeros(70_000, dtype=np.uint8)
    for part, first, total, numbers in (("train", 0, 12_000, range(4)), ("test", 60_000, 3000, (20,))):
        rows, own = arrays[f"{part}_rows"].astype(int), arrays[f"{part}_labels"]
        labels[first : first + total] = _gaps(rows, own, total)
        pixels = np.full((total, 784), 99, dtype=np.uint8)
        pixels[rows] = arrays[f"{part}_images"].reshape(-1, 784)
        for number, block in zip(numbers, pixels.reshape(-1, 3000, 784), strict=True):
            files[f"demo/mnist/mnist_batch_{number}.png"] = _png(block)
    return {**files, "demo/mnist/mnist_labels.js": _js(labels)}


def _gaps(rows, own, total):
    """Labels of all rows: those of ``rows``, and elsewhere the class that was complete first."""
    last = {label: rows[own == label].max() for label in range(10)}
    labels = np.full(total, min(last, key=last.get), dtype=np.uint8)
    labels[rows] = own
    gaps = np.setdiff1d(np.arange(total), rows)
    assert gaps.min() > min(last.values())
    return labels


def _cifar(arrays):
    rows = arrays["train_rows"].astype(int)
    labels = _gaps(rows, arrays["labels"], 2000)
    pixels = np.zeros((2000, 1024, 3), dtype=np.uint8)
    pixels[rows] = arrays["images"].reshape(-1, 1024, 3)
    files = {f"demo/cifar10/cifar10_batch_{i}.png": _png(pixels[1000 * i : 1000 * (i + 1)]) for i in range(2)}
    return {**files, "demo/cifar10/cifar10_labels.js": _js(labels)}


def _python(**arrays):
    lines = ["# A comment.", '"""', "EXAMPLE = [", '"""', "import numpy as np", ""]
    for name, values in arrays.items():
        listed = "".join(f"    {'np.nan' if value != value else value},\n" for value in values.tolist())
        lines += [f"{name} = np.array([\n{listed}]).reshape(({len(values)},))", ""]
    return "\n".join([*lines, "NOISE = .1"]).encode()


GYM = "spinoffs/inference_gym/inference_gym"


def _brownian_motion(arrays):
    path = f"{GYM}/internal/datasets/brownian_motion_missing_middle_observations.py"
    return {path: _python(OBSERVED_LOC=arrays["observed"])}


def _item_response(arrays):
    answers = {
        f"{long}": arrays[short]
        for short, long in (("student", "STUDENT_IDS"), ("question", "QUESTION_IDS"), ("correct", "CORRECT"))
    }
    known = {}
    for name in ("mean_student_ability", "question_difficulty", "centered_student_ability"):
        for what, long in (("mean", "MEAN"), ("mean_error", "MEAN_STANDARD_ERROR"), ("sd", "STANDARD_DEVIATION")):
            known[f"IDENTITY_{name.upper()}_{long}"] = arrays[f"{name}_{what}"]
    return {
        f"{GYM}/internal/datasets/synthetic_item_response_theory.py": _python(**answers),
        f"{GYM}/targets/ground_truth/synthetic_item_response_theory.py": _python(**known),
    }


def _german_credit(arrays):
    rows = np.column_stack([arrays["features"].astype(int), 1 + arrays["bad"]])
    return {"german.data-numeric": _text(rows, ", ").replace(b"\n", b" \n")}


def _npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _stochastic_volatility(arrays):
    folder = "sampler-evaluation/sampler_evaluation/models/data"
    moments = np.stack([arrays["square_mean"], arrays["square_variance"]])
    return {f"{folder}/SP500.npy": _npy(arrays["returns"]), f"{folder}/stoch_vol_moments.npy": _npy(moments)}


REBUILT = {
    "blogfeedback": _blog,
    "breast_cancer_split": lambda arrays: {},
    "cifar10_1000": _cifar,
    "compas": _compas,
    "hiv1_1625": _octamers,
    "mnist_small": _mnist,
    "targets/brownian_motion": _brownian_motion,
    "targets/german_credit": _german_credit,
    "targets/item_response": _item_response,
    "targets/stochastic_volatility": _stochastic_volatility,
    "tsp_eil": _cities,
    "uci_boston": functools.partial(_uci, folder="bostonHousing"),
    "uci_concrete": functools.partial(_uci, folder="concrete"),
    "uci_energy": functools.partial(_uci, folder="energy"),
    "uci_mushroom": _mushroom,
    "uci_naval": functools.partial(_uci, folder="naval-propulsion-plant"),
    "uci_wine_red": functools.partial(_uci, folder="wine-quality-red"),
    "uci_wine_white": _wine,
    "uci_yacht": functools.partial(_uci, folder="yacht"),
}


class Network:
    """The files of one data set at their addresses, and what was asked for."""

    def __init__(self, name, files):
        repository = DATASETS[name].source.split(",")[0].replace("@", "/")
        self.files = {f"https://raw.githubusercontent.com/{repository}/{path}": files[path] for path in files}
        self.asked = []

    def __call__(self, url, digest):
        self.asked.append(url)
        assert hashlib.sha256(self.files[url]).hexdigest() == digest
        return self.files[url]


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("XPSAMPLE_DATA", raising=False)


def _stored(folder, name):
    with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
        return dict(archive)


def _know(monkeypatch, name, files):
    """Know the digests of files that are rebuilt, and so are not the bytes of the repository."""
    known = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    monkeypatch.setitem(DATASETS, name, DATASETS[name]._replace(files=known))


def _serve(monkeypatch, folder, name):
    rebuilt = REBUILT[name](_stored(folder, name))
    network = Network(name, rebuilt)
    monkeypatch.setattr(data, "_fetch", network)
    _know(monkeypatch, name, rebuilt)
    return network


def test_what_downloads_has_a_digest_and_the_rest_has_none():
    assert set(CONVERTERS) == set(REBUILT) == set(DATASETS) - set(KEPT)
    assert {name for name in DATASETS if not DATASETS[name].digest} == set(KEPT)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", REBUILT)
def test_a_download_gives_the_arrays_of_the_folder(data_folder, no_folder, monkeypatch, name):
    stored, network = _stored(data_folder, name), _serve(monkeypatch, data_folder, name)
    arrays = load_dataset(name)
    assert tuple(arrays) == DATASETS[name].arrays
    for key, array in arrays.items():
        assert array.dtype == stored[key].dtype
        np.testing.assert_array_equal(array, stored[key])
    assert sorted(network.asked) == sorted(network.files)


def test_arrays_other_than_known_are_refused_with_both_digests(data_folder, no_folder, monkeypatch):
    network = _serve(monkeypatch, data_folder, SMALL)
    (url,) = network.files
    network.files[url] = network.files[url].replace(b"\n1 37 52\n", b"\n1 37 53\n")
    _know(monkeypatch, SMALL, {"data/eil51.tsp": network.files[url]})
    changed = {key: _stored(data_folder, SMALL)[key] for key in DATASETS[SMALL].arrays}
    for array in changed.values():
        array[0, 1] = 53
    with pytest.raises(DataError, match=f"digest {arrays_digest(changed)} instead of {DATASETS[SMALL].digest}"):
        load_dataset(SMALL)


def test_a_source_that_is_no_table_is_refused(data_folder, no_folder, monkeypatch):
    network = _serve(monkeypatch, data_folder, SMALL)
    network.files = dict.fromkeys(network.files, b"404: Not Found")
    _know(monkeypatch, SMALL, {"data/eil51.tsp": b"404: Not Found"})
    with pytest.raises(DataError, match=r"jam7/tsp@4be9d3f.* cannot be converted: IndexError"):
        load_dataset(SMALL)


def test_every_source_file_is_known(data_folder, monkeypatch):
    known = {name: set(dataset.files) for name, dataset in DATASETS.items() if dataset.files}
    assert set(known) == set(CONVERTERS) - {"breast_cancer_split"}
    for name, files in known.items():
        assert files == set(REBUILT[name](_stored(data_folder, name)))


def test_the_folder_goes_first_and_nothing_is_fetched(data_folder, no_folder, monkeypatch, tmp_path):
    network = _serve(monkeypatch, data_folder, SMALL)
    monkeypatch.setenv("XPSAMPLE_DATA", str(data_folder))
    assert "eil14_opt_tour" in load_dataset(SMALL)  # a file of the folder may hold more
    monkeypatch.setenv("XPSAMPLE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="there is no"):
        load_dataset(SMALL)
    assert network.asked == []


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_downloaded_says_so(no_folder, monkeypatch, name):
    with pytest.raises(DataError, match=rf"is not downloaded: set XPSAMPLE_DATA to a folder that holds {name}\.npz"):
        load_dataset(name)


def test_without_pooch_the_error_names_the_extra(no_folder, monkeypatch):
    monkeypatch.setattr(data, "_fetch", FETCH)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r'pip install "xpsample\[data\]".*Or set XPSAMPLE_DATA to a folder'):
        load_dataset(SMALL)


def test_without_pillow_the_error_names_the_extra(no_folder, monkeypatch):
    monkeypatch.setattr(data, "_fetch", lambda url, digest: b"var labels=[1, 2];")
    files = dict.fromkeys(DATASETS["cifar10_1000"].files, b"var labels=[1, 2];")
    _know(monkeypatch, "cifar10_1000", files)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r'needs pillow: pip install "xpsample\[data\]"'):
        load_dataset("cifar10_1000")


def test_without_a_network_the_error_has_the_address_and_the_other_way(no_folder, monkeypatch):
    def unreachable(*_, **__):
        raise ConnectionError("unreachable.")

    pooch = types.SimpleNamespace(HTTPDownloader=lambda timeout: None, os_cache=str, retrieve=unreachable)
    monkeypatch.setattr(data, "_fetch", FETCH)
    monkeypatch.setitem(sys.modules, "pooch", pooch)
    address = r"https://raw\.githubusercontent\.com/jam7/tsp/4be9d3f05b0224b9dbb714e2c763465fe4936acc/data/eil51\.tsp"
    with pytest.raises(DataError, match=rf"{address} cannot be fetched: unreachable\. Or set XPSAMPLE_DATA to a"):
        load_dataset(SMALL)


class Answer(http.server.BaseHTTPRequestHandler):
    """A server of this machine that has one file."""

    def do_GET(self):
        self.send_response(200 if self.path == "/there" else 404)
        self.end_headers()
        self.wfile.write(b"some \x00 bytes")

    def log_message(self, *_):
        pass


def test_what_is_fetched_has_its_digest_and_is_kept(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    known, other = (hashlib.sha256(content).hexdigest() for content in (b"some \x00 bytes", b"others"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(DataError, match=r"/there cannot be fetched: .*hash"):
                FETCH(f"{base}/there", other)
            with pytest.raises(DataError, match=r"/missing cannot be fetched: 404"):
                FETCH(f"{base}/missing", known)
            assert not [path for path in tmp_path.rglob("*") if path.is_file()]
            assert FETCH(f"{base}/there", known) == b"some \x00 bytes"
            (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
            kept.write_bytes(b"damaged")
            assert FETCH(f"{base}/there", known) == b"some \x00 bytes"
        finally:
            server.shutdown()
            thread.join()
    assert FETCH(f"{base}/there", known) == b"some \x00 bytes"  # from the cache
    kept.unlink()
    with pytest.raises(DataError, match=r"/there cannot be fetched"):
        FETCH(f"{base}/there", known)
