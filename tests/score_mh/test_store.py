"""Parameters come back as they were; files that hold something else are refused by name."""

import numpy as np
import pytest

from tests.damage import damages
from xpsample.core import tree
from xpsample.core.errors import DataError
from xpsample.score_mh import init_acceptance_network, init_score_network, load_parameters, save_parameters


def test_round_trip(tmp_path, typed_library):
    parameters = tree.map(typed_library.array, init_acceptance_network(2, 5, seed=1, blocks=2))
    path = tmp_path / "new" / "acceptance.npz"
    save_parameters(path, parameters)
    found = load_parameters(path, like=init_acceptance_network(2, 5, seed=0, blocks=2))
    assert type(found) is type(parameters) and len(found.blocks) == 2
    for a, b in zip(tree.leaves(found), tree.leaves(parameters), strict=True):
        assert isinstance(a, np.ndarray) and str(a.dtype) == typed_library.dtype
        np.testing.assert_array_equal(a, typed_library.host(b))
    assert [p.name for p in path.parent.iterdir()] == ["acceptance.npz"]


def test_other_containers(tmp_path):
    for parameters in (np.arange(3.0), {"b": [np.ones(2), None], "a": (np.zeros((2, 1)),)}):
        save_parameters(tmp_path / "p.npz", parameters)
        found = load_parameters(tmp_path / "p.npz", like=parameters)
        assert repr(found) == repr(parameters)


def test_what_is_refused(tmp_path):
    path = tmp_path / "score.npz"
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like=np.ones(1))
    save_parameters(path, init_score_network(2, 5, seed=0))
    with pytest.raises(DataError, match=r"0/weight: \(2, 5\) there, \(3, 5\) asked for"):
        load_parameters(path, like=init_score_network(3, 5, seed=0))
    with pytest.raises(DataError, match=r"2/bias: \(2,\) there, nothing asked for"):
        load_parameters(path, like=init_score_network(2, 5, seed=0)[:2])
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like=np.ones(1))
    np.savez(path, object=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like={"object": np.ones(1)})


def test_every_damage_is_one_error_that_names_the_file(tmp_path):
    path, parameters = tmp_path / "score.npz", init_score_network(2, 5, seed=0)
    save_parameters(path, parameters)
    refused, all_of_them = 0, list(damages(path.read_bytes()))
    for damaged in all_of_them:
        path.write_bytes(damaged)
        try:
            found = load_parameters(path, like=parameters)
        except DataError as error:
            refused += str(path) in str(error)
        else:  # a date, or another part of the archive that holds no numbers
            assert all(map(np.array_equal, tree.leaves(found), tree.leaves(parameters)))
            refused += 1
    assert refused == len(all_of_them)


def test_any_name_can_be_stored(tmp_path):
    save_parameters(tmp_path / "p.npz", {"file": np.ones(1), "args": np.zeros(2)})
    assert load_parameters(tmp_path / "p.npz", like={"file": np.ones(1), "args": np.zeros(2)})["file"] == 1
