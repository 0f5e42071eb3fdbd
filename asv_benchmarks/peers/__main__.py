"""The table of peers; each has a process of its own."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from asv_benchmarks.tables import table

PEERS = ["by_hand_numpy", "by_hand_jax", "by_hand_torch", "blackjax", "numpyro", "mici"]
PROBLEMS, KERNELS, CHAINS = ["logistic", "breast_cancer"], ["mala", "hmc"], [1, 10, 100, 1000]
NAMES = {
    "by_hand_numpy": "NumPy code by hand",
    "by_hand_torch": "torch code by hand",
    "by_hand_jax": "JAX code by hand",
    "blackjax": "BlackJAX (JAX arrays)",
    "numpyro": "NumPyro (JAX arrays)",
}
"""Of some peers, in the tables of the page on performance."""
PAGES = {"by_hand": list(NAMES)[:3], "packages": list(NAMES)[3:]}
"""The peers of each of its tables."""
COLUMNS = {
    "peer": ("peer", "s"),
    "problem": ("problem", "s"),
    "kernel": ("kernel", "s"),
    "score": ("our score", "s"),
    "chains": ("chains", "d"),
    "ours_cpu": ("ours", ",.0f"),
    "theirs_cpu": ("theirs", ",.0f"),
    "cpu_ratio": ("ratio", ".2f"),
    "least_ratio": ("least", ".2f"),
    "most_ratio": ("most", ".2f"),
    "wall_ratio": ("wall", ".2f"),
    "limit": ("limit", "s"),
}
LEGEND = """\
ours, theirs  CPU nanoseconds for one step of one chain, medians
ratio         ours over theirs in runs next to each other, the median; and the least and the most
wall          the same ratio of wall times
limit         what the ratio should not exceed"""


def limit(peer: str, score: str, chains: int) -> float | None:
    """What the ratio should not exceed."""
    if peer in ("blackjax", "numpyro"):
        return {"analytic": 0.7, "autodiff": 1.0}[score]
    if peer in ("by_hand_numpy", "by_hand_torch"):
        return {1: 1.5, 10: 1.4, 100: 1.25}.get(chains, 1.15)
    return 1.05 if peer == "by_hand_jax" else None


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of the page on performance: ratios with a score by formula, a row for each peer and problem."""
    rows = [row for row in rows if row["score"] == "analytic"]
    columns = list(dict.fromkeys((row["kernel"], row["chains"]) for row in rows))
    head = [f"{kernel.upper()}, {chains:,}" for kernel, chains in columns]
    lines = ["| compared with | " + " | ".join(head) + " |", "| --- " * (1 + len(columns)) + "|"]
    for peer, problem in dict.fromkeys((row["peer"], row["problem"]) for row in rows):
        own = {(r["kernel"], r["chains"]): r for r in rows if (r["peer"], r["problem"]) == (peer, problem)}
        cells = [f"{own[key]['cpu_ratio']:.2f}" if key in own else "" for key in columns]
        lines.append(f"| {NAMES.get(peer, peer)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print the table; 1 where a peer's chain has another distribution than ours."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers", description=__doc__)
    parser.add_argument("--peer", action="append", choices=PEERS, help="these only; by default all that are installed")
    parser.add_argument("--problem", action="append", choices=PROBLEMS)
    parser.add_argument("--kernel", action="append", choices=KERNELS)
    parser.add_argument("--chains", action="append", type=int, help=f"by default each of {CHAINS}")
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each side")
    parser.add_argument("--quick", action="store_true", help="one case, three rounds, to see that it runs")
    parser.add_argument("--page", choices=list(PAGES), help="print a table of the page on performance, too")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.page:
        args.peer, args.problem, args.chains = args.peer or PAGES[args.page], ["logistic"], [1, 100, 1000]
    if args.worker:
        return _work(args)

    own = sys.argv[1:] if arguments is None else list(arguments)
    rows, failed = [], False
    for peer in args.peer or PEERS:
        command = [sys.executable, "-m", "asv_benchmarks.peers", *own, "--worker", peer]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                told = json.loads(line)
                if "chains" in told:
                    rows.append(told)
                    print(
                        f"{peer}: {told['problem']} {told['kernel']} {told['score']}, {told['chains']} chains: "
                        f"{told['cpu_ratio']:.2f}",
                        file=sys.stderr,
                        flush=True,
                    )
                else:
                    print(f"{peer}: {told['said']}", file=sys.stderr, flush=True)
        failed |= process.returncode != 0
    if rows:
        print(table(rows, COLUMNS) + "\n\n" + LEGEND)
        if args.page:
            print("\n" + markdown(rows))
    return int(failed)


def _work(args: argparse.Namespace) -> int:
    """One peer: a JSON line for every row and every remark."""
    from asv_benchmarks.peers.turns import UnequalWork, check_distribution, compare, peer_named

    def say(**told: Any) -> None:
        print(json.dumps(told), flush=True)

    try:
        peer = peer_named(args.worker)
    except ImportError as error:
        say(said=f"skipped, {error}")
        return 0
    problems, kernels, chains = args.problem or PROBLEMS, args.kernel or KERNELS, args.chains or CHAINS
    rounds = args.rounds
    if args.quick:
        problems, kernels, chains, rounds = problems[:1], kernels[:1], chains[:1], 3
    for problem in problems:
        for kernel in kernels:
            try:
                apart = check_distribution(args.worker, problem, kernel)
            except UnequalWork as error:
                say(said=str(error))
                return 1
            say(said=f"{problem} {kernel}: the distributions differ by {apart:.1f} standard errors, as by chance")
            for count in chains:
                if count <= peer.MOST_CHAINS:
                    for row in compare(args.worker, problem, kernel, count, rounds):
                        bound = limit(args.worker, row["score"], count)
                        say(**row, limit="" if bound is None else f"{bound:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
