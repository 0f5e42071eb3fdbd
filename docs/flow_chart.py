"""The flow chart of the page that helps to choose a sampler; `pictures.py` writes it."""

from typing import Any

import matplotlib.pyplot as plt

BLUE, GREY, GREEN = "#2e7ebb", "#8a8f98", "#3f9b6c"


def choose_figure() -> Any:
    """A flow chart to a sampler: questions from left to right, answers below and above."""
    figure, panel = plt.subplots(figsize=(10, 2.9), layout="constrained")
    panel.set(xlim=(-0.6, 10.6), ylim=(-1.3, 1.3))
    panel.axis("off")
    questions = (
        ("all variables\nreal?", "discrete:\nGWG(), Gibbs()\nboth kinds: Blocks"),
        ("a log\ndensity?", "a score alone:\nMALA() with an\nacceptance, ULA()"),
        ("a score?", "RWM()"),
        ("one mode, or\nnear ones?", "distant modes:\nParallelTempering(MALA())"),
        ("only\ndraws?", "a normalizing constant:\nTemperedSMC, AIS"),
    )
    box = {"boxstyle": "round,pad=0.5", "fc": "none", "lw": 1.2}
    arrow = {"arrowstyle": "->", "color": GREY, "shrinkA": 2, "shrinkB": 2}
    for i, (question, answer) in enumerate(questions):
        x, up = 2.0 * i, 1 if i % 2 else -1
        panel.text(
            x,
            0,
            question,
            ha="center",
            va="center",
            color=BLUE,
            bbox=box | {"ec": BLUE},
        )
        panel.text(
            x,
            0.95 * up,
            answer,
            ha="center",
            va="center",
            color=GREY,
            bbox=box | {"ec": GREY},
        )
        panel.annotate("", (x, 0.62 * up), (x, 0.28 * up), arrowprops=arrow)
        panel.text(x + 0.08, 0.43 * up, "no", color=GREY, va="center")
        panel.annotate(
            "", (x + (1.45 if i < 4 else 1.35), 0), (x + 0.55, 0), arrowprops=arrow
        )
        panel.text(x + 0.9, 0.08, "yes", color=GREY)
    panel.text(
        10,
        0,
        "HMC()\nNUTS()",
        ha="center",
        va="center",
        color=GREEN,
        weight="bold",
        bbox=box | {"ec": GREEN},
    )
    return figure
