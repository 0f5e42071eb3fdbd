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


@pytest.mark.parametrize("name", ["srmc", "SRMC", "sr-hmc", "SR-MALA"])
def test_names_in_any_spelling(name):
    assert citation(name) == citation("srmc")
    assert "2604.22948" in citation(name)


def test_nested_kernels_and_expressions_give_all_their_parts_once():
    both = citation(SRMC(HMC(0.1, steps=3), alpha=1.0))
    assert both == citation("SRMC(HMC)") == citation("srmc", "hmc")
    assert both.count("@") == 3  # SRMC, Duane et al., Neal
    assert citation(SRMC(SRMC(MALA(0.1), alpha=1.0), alpha=1.0)) == citation("srmc", "mala")


KERNELS = [
    name
    for name in xpsample.__all__
    if isinstance(kernel := getattr(xpsample, name), type) and issubclass(kernel, xpsample.kernels.Kernel)
]


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_reference(name):
    assert citation(name).startswith("@")


def test_kernels_are_cited_with_what_is_in_them():
    assert citation(MALA(0.1)) == citation("mala")
    assert citation(ParallelTempering(DMALA(0.2), (1.0, 0.5))) == citation("tempering", "dlp")


def test_the_text_of_a_kernel_is_cited_as_the_kernel_is():
    kernel = SRMC(ParallelTempering(HMC(0.1, steps=3), (1.0, 0.5)), alpha=1.0, schedule=xpsample.PowerLaw(rho=0.6))
    assert citation(show(kernel)) == citation(kernel)
    with pytest.raises(XpsampleError, match="no citation is known for 'Own'"):
        citation("Own(base=HMC(step_size=0.1))")


def test_without_a_name_the_software():
    assert "@software{xpsample" in citation()


def test_unknown_names_and_things():
    with pytest.raises(XpsampleError, match="did you mean srmc"):
        citation("srcm")
    with pytest.raises(XpsampleError, match="known: acs, ais"):
        citation("qqqq")
    with pytest.raises(XpsampleError, match="names and kernels"):
        citation(3)

    @dataclass(frozen=True)
    class Homemade:
        step_size: float = 0.1

    with pytest.raises(XpsampleError, match="Homemade"):
        citation(Homemade())
