"""Parameters in files: npz archives, without pickle."""

from pathlib import Path

from xpsample.core import tree
from xpsample.core.errors import DataError, reading
from xpsample.core.registry import to_host
from xpsample.files.archives import read_arrays, write_arrays


def save_parameters(path: str | Path, parameters: tree.Tree) -> None:
    """Write a tree of arrays, each under its path in the tree.

    Parameters
    ----------
    path : path
        Path of the file. It is written atomically.
    parameters : tree of arrays
        Tree of arrays of any library.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, {name or "0": to_host(leaf) for name, leaf in tree.items(parameters)})


def load_parameters(path: str | Path, like: tree.Tree) -> tree.Tree:
    """Read a tree that `save_parameters` wrote, as NumPy arrays.

    Parameters
    ----------
    path : path
    like : tree of arrays
        With the expected structure and shapes, such as ``init_score_network(2, 64, seed=0)``.

    Raises
    ------
    DataError
        If the file cannot be read, or does not hold such a tree.
    """
    with reading(Path(path), DataError, "train again, or use another copy of the file of `save_parameters`"):
        found = read_arrays(Path(path))
    expected = {name or "0": tuple(leaf.shape) for name, leaf in tree.items(like)}
    there = {name: array.shape for name, array in found.items()}
    if there != expected:
        different = sorted(name for name in there | expected if there.get(name) != expected.get(name))
        lines = ", ".join(
            f"{n}: {there.get(n, 'nothing')} there, {expected.get(n, 'nothing')} asked for" for n in different
        )
        raise DataError(f"{path} holds other parameters ({lines})")
    return tree.fill(like, {name: found[name or "0"] for name, _ in tree.items(like)})
