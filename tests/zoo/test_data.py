"""Real data: the folder, its files, and what is said when something is not there."""

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from xpsample.core.errors import DataError
from xpsample.experiments.data import DATASETS, load_dataset


def test_every_file_of_the_folder_has_its_arrays(data_folder):
    assert {path.stem for path in data_folder.glob("*.npz")} <= set(DATASETS)
    for name in DATASETS:
        if not (data_folder / f"{name}.npz").is_file():
            pytest.skip(f"{data_folder} has no {name}.npz")
        assert set(DATASETS[name].arrays) <= set(load_dataset(name))


def test_without_the_variable_or_a_network_the_error_says_what_to_set_and_where_the_data_come_from(monkeypatch):
    monkeypatch.delenv("XPSAMPLE_DATA", raising=False)
    with pytest.raises(DataError, match=r"set XPSAMPLE_DATA to a folder that holds tsp_eil\.npz.*jam7/tsp@4be9d3f"):
        load_dataset("tsp_eil")


def test_a_name_that_is_not_known():
    with pytest.raises(DataError, match=r"no data set is called 'mnist'; there are: .*mnist_small"):
        load_dataset("mnist")


def test_files_that_are_missing_broken_or_lack_an_array(monkeypatch, tmp_path):
    monkeypatch.setenv("XPSAMPLE_DATA", str(tmp_path))
    path = tmp_path / "uci_yacht.npz"
    with pytest.raises(DataError, match=r"there is no .*uci_yacht\.npz.*yaringal"):
        load_dataset("uci_yacht")
    for broken in (b"", b"no zip", b"PK\x03\x04 cut short"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="cannot be read"):
            load_dataset("uci_yacht")
    np.savez(path, X=np.zeros(2), y=np.zeros(2))
    with pytest.raises(DataError, match=r"lacks train_index, test_index; it has X, y"):
        load_dataset("uci_yacht")


def test_pickled_objects_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XPSAMPLE_DATA", str(tmp_path))
    arrays = dict.fromkeys(DATASETS["uci_yacht"].arrays, np.zeros(2)) | {"X": np.array([print], dtype=object)}
    np.savez(tmp_path / "uci_yacht.npz", **arrays)
    assert zipfile.is_zipfile(tmp_path / "uci_yacht.npz")
    with pytest.raises(DataError, match="holds Python objects"):
        load_dataset("uci_yacht")


def test_a_file_that_would_take_too_much_memory_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XPSAMPLE_DATA", str(tmp_path))
    np.savez_compressed(tmp_path / "uci_yacht.npz", X=np.zeros(300_000_000, np.uint8))
    tracemalloc.start()
    with pytest.raises(DataError, match="would exceed"):
        load_dataset("uci_yacht")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_every_entry_names_a_commit_or_a_recipe():
    for name, dataset in DATASETS.items():
        assert "@" in dataset.source or "scikit-learn" in dataset.source, name
        assert dataset.about and dataset.arrays


def test_the_page_has_every_file():
    page = Path(__file__).parents[2] / "docs" / "experiments" / "data.md"
    if not page.is_file():
        pytest.skip("these tests read the source tree")
    text = page.read_text()
    assert not [name for name in DATASETS if f"`{name}`" not in text]
