"""One table of the experiments' quick runs: their options and needs, what their report says, and their figures."""

import importlib.util
from typing import NamedTuple

LIBRARY = "torch" if importlib.util.find_spec("torch") else "numpy"
"""Eager torch needs no compilation; where it is not here, NumPy borrows what there is."""


class Quick(NamedTuple):
    """A quick run.

    Parameters
    ----------
    report : tuple of str
        Words of its report.
    options : str
        Of the command line.
    needs : str
        Modules, and "data" for the data folder.
    figures : str
        Names of its figures.
    silent : str
        A word that its report must not have.
    without : str
        A module that it runs without.
    """

    report: tuple[str, ...]
    options: str = ""
    needs: str = ""
    figures: str = "plot"
    silent: str = "no such word"
    without: str = "no_such_module"


HISS = ("the paper", "of a sampler: ")

QUICK = {
    "breast-cancer": Quick(
        (
            "455 training rows, 114 held out, 31 coefficients",
            "reference: 500 HMC steps",
            "SR-MALA against MALA: error of one chain's means 0.6",
        ),
        "--backend numpy",
        silent="compiled in",  # on NumPy nothing is
    ),
    "samplers": Quick(("gradients/100", "638")),  # 638: the published banana
    "hiss-bernoulli": Quick((*HISS, "HiSS with other scales, 10 chains, 40 draws"), figures="plot bridging"),
    "hiss-ising": Quick(
        (*HISS, "Kaufman", "HiSS with G L = 50", "coverage is of the 32 prominent states"), "--critical-draws 3"
    ),
    "hiss-bnn": Quick(
        (
            "3201 weights",
            "-0.0237, 0.154",
            "4 networks",
            "printed: highest test log likelihood",
            "of a constant -0.2350",
        ),
        "--data breast-cancer --networks 4 --energy code --energy printed",
        figures="",
    ),
    "hiss-tsp": Quick(
        ("277.9 +- 19.8", "the shortest has 191.85", "2-opt ends with the shortest tours", "104.0    0.052"),
        needs="data",
    ),
    "score-mh-diffusion": Quick((), needs="ot sklearn", figures="images"),
    "score-mh-digits": Quick(
        ("learned, direct", "ladders of several lengths", "0 with MALA, learned, direct"),
        needs="ot sklearn",
        figures="images w1",
    ),
    "score-mh-gaussian": Quick(("W1 with the true and the learned score: direct", "floor"), f"--backend {LIBRARY}"),
    "score-mh-gev": Quick(
        ("xi = 0.5", "eta = 0.1: frozen chains of ULA", "largest MMD^2 for eta = 0.1"), f"--backend {LIBRARY}"
    ),
    "score-mh-toys": Quick(
        ("0.143 / 0.096 / 0.054", "a on grid", "moons: smallest W1 from normal starts"),
        f"--backend {LIBRARY}",
        "ot",
        "plot sweeps lambda maps",
    ),
    "score-mh-weights": Quick(
        ("6 of 12 samplers never cross", "ULA 0.52, RW 0.79", "0.500 +- 0.080"), f"--backend {LIBRARY}"
    ),
    "sosmc-deblur": Quick(
        ("paper: SOSMC-MYULA", "215.5", "setup A: MSE of SOSMC over MYPGD 0.96"),
        "--setup A",
        "data skimage",
        "plot clouds",
        silent="nan",
    ),
    "sosmc-ebm2d": Quick(
        ("Section 5.2", "optimum", "SOSMC-MALA", "above the least one"),
        needs="torch",
        figures="plot densities mixing short tilts",
    ),
    "sosmc-langevin": Quick(
        ("Tables 1 and 2", "SOUL", "0.6484", "of 2 cases: ImpDiff 1, SOUL 0, SOSMC-ULA 1"),
        needs="torch",
        figures="plot nll problems",
    ),
    "sosmc-mnist": Quick(
        ("Section 5.3", "SOSMC-ULA", "the reward of new images changes by"),
        needs="data torch",
        figures="plot ways betas",
    ),
    "srld-banana": Quick(
        ("it needs POT", "numpy, Eq. 3, App. A: SRLD is worse in MMD^2; undecided in marginal W1, ESS"), without="ot"
    ),
    "srld-bandits": Quick(
        ("mushroom, numpy-cpu-float32: lowest regret", "; SRLD - LD: ", "32.08 +- 0.75"), needs="data"
    ),
    "srld-bnn": Quick(
        ("yacht: 277 + 31 rows, 402 coordinates", "one by one", "0.578, -0.458"), "--data yacht", "data", figures=""
    ),
    "srld-mixtures": Quick(
        (
            "it needs POT",
            "numpy, mixture, d = 2, Eq. 3, App. A: 3 repeats of 50 draws, one in 100",
            "Gaussian, d = 100, authors' code: smallest MMD^2 med with alpha = 10, x^2 0.6",
        ),
        without="ot",
    ),
    "srmc-digits": Quick(("annealed from uniform bits", "2.1628"), needs="data", figures="plot ways"),
    "srmc-ebm": Quick(("right on 91.", "beside the paper\nCIFAR-10", "uniform"), needs="data", figures="plot so-far"),
    "srmc-modes": Quick(("the paper", "100 maxima", "SR-ULA"), needs="data"),
    "srmc-mse": Quick(
        (
            "logistic reference: 100 HMC steps",
            "MCSE",
            "against six runs",
            "logistic SR-HMC, scale 1: at equal work 0.36 of the error",
        )
    ),
    "srmc-strength": Quick(("the paper",)),
    "srmc-sweeps": Quick(("the paper",)),
    "srmc-tilts": Quick(("SR-MALA, Untilted: of 30", "the paper"), figures="plot gaussian"),
    "srmc-wells": Quick(("the paper", "SR-ULA Shift", "by 4k", "-1.2", "8.0% of the chains of ULA")),
}
