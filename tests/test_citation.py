"""What to cite, by name and from kernels."""

import re
from dataclasses import dataclass

import pytest

import xpsample
from xpsample import DMALA, HMC, MALA, SRMC, ParallelTempering
from xpsample.citation import REFERENCES, citation, known_names
from xpsample.core.errors import XpsampleError
from xpsample.core.hyperparameters import show


def test_entries_are_balanced_bibtex_with_unique_keys():
    keys = []
    for name in known_names():
        for entry in REFERENCES[name]:
            head = re.match(r"@[a-z]+\{([a-z0-9]+),\n", entry)
            assert head and entry.count("{") == entry.count("}") and entry.endswith("\n}")
            assert "title" in entry and "author" in entry
            keys.append(head[1])
    assert len(keys) == len(set(keys))


def test_kernels_and_names_in_any_spelling_give_all_their_parts_once():
    assert "2604.22948" in citation("srmc")
    assert {citation(name) for name in ("SRMC", "sr-hmc", "SR-MALA")} == {citation("srmc")}
    both = citation(SRMC(HMC(0.1, steps=3), alpha=1.0))
    assert both == citation("SRMC(HMC)") == citation("srmc", "hmc")
    assert both.count("@") == 3  # SRMC, Duane et al., Neal
    assert citation(SRMC(SRMC(MALA(0.1), alpha=1.0), alpha=1.0)) == citation("srmc", "mala")
    assert citation(MALA(0.1)) == citation("mala")
    assert citation(ParallelTempering(DMALA(0.2), (1.0, 0.5))) == citation("tempering", "dlp")
    assert "@software{xpsample" in citation()


KERNELS = [
    name
    for name in xpsample.__all__
    if isinstance(kernel := getattr(xpsample, name), type) and issubclass(kernel, xpsample.kernels.Kernel)
]


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_reference(name):
    assert citation(name).startswith("@")


def test_the_text_of_a_kernel_is_cited_as_the_kernel_is():
    kernel = SRMC(ParallelTempering(HMC(0.1, steps=3), (1.0, 0.5)), alpha=1.0, schedule=xpsample.PowerLaw(rho=0.6))
    assert citation(show(kernel)) == citation(kernel)
    with pytest.raises(XpsampleError, match="no citation is known for 'Own'"):
        citation("Own(base=HMC(step_size=0.1))")


def test_unknown_names_and_things():
    @dataclass(frozen=True)
    class Homemade:
        step_size: float = 0.1

    for thing, message in (
        ("srcm", "did you mean srmc"),
        ("qqqq", "known: acs, ais"),
        (3, "names and kernels"),
        (Homemade(), "Homemade"),
    ):
        with pytest.raises(XpsampleError, match=message):
            citation(thing)
