"""Max-Cut: files, the density that samplers are given, and annealing, beside enumeration."""

from itertools import product

import numpy as np
import pytest

from asv_benchmarks.peers import max_cut
from asv_benchmarks.peers.max_cut import Graph, read


def ring(nodes):
    """Weights 1, -2, 3, 1, -2, ... around."""
    ends = np.arange(nodes)
    return Graph(nodes, np.stack([ends, (ends + 1) % nodes], axis=-1), np.resize([1.0, -2.0, 3.0], nodes))


def test_a_file_is_read(tmp_path):
    path = tmp_path / "G0.txt"
    path.write_text("3 2\n1 2 1\n3 2 -4\n\n")
    graph = read(path)
    assert graph.nodes == 3 and graph.pairs.tolist() == [[0, 1], [2, 1]] and graph.weights.tolist() == [1, -4]
    assert graph.cut(np.asarray([[1.0, -1.0, -1.0], [1.0, -1.0, 1.0]])).tolist() == [1, -3]
    path.write_text("3 3\n1 2 1\n3 2 -4\n")
    with pytest.raises(ValueError, match="has 2 edges and says that there are 3"):
        read(path)


@pytest.mark.parametrize("nodes", [9, 120], ids=["by a matrix", "by neighbors"])
def test_the_density_is_that_of_the_cut(nodes):
    graph = ring(nodes)
    target = max_cut.target_of(graph, 0.7)
    assert ("neighbors" in target.data) == (nodes == 120)
    s = np.random.default_rng(0).choice([-1.0, 1.0], size=(4, nodes))
    flipped = s[:, None, :] * (1 - 2 * np.eye(nodes))  # (chains, flips, nodes)
    density = target.log_density(s, target.data)
    np.testing.assert_allclose(density, 0.7 * (2 * graph.cut(s) - graph.weights.sum()))
    changes = 1.4 * (graph.cut(flipped) - graph.cut(s)[:, None])
    np.testing.assert_allclose(target.differences(s, target.data)[..., 0], changes, atol=1e-12)


@pytest.mark.parametrize("side", ["annealing by hand", "ChromaticGibbs, cooled", "PT(ChromaticGibbs)"])
def test_the_largest_cut_of_a_small_graph_is_found(side):
    graph = ring(10)
    largest = np.max(graph.cut(np.asarray(list(product([-1.0, 1.0], repeat=10)))))
    assert max_cut.SIDES[side](graph, 0, 40) == largest
