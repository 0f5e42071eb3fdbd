"""The same work by xpsample and by its peers, timed in turns.

``python -m asv_benchmarks.peers`` from the root of the checkout prints one table; ``--help`` has the options. Peers are
code written by hand for NumPy, JAX and torch (`by_hand_*`), and the libraries BlackJAX, NumPyro and mici where they are
installed (``pip install -e ".[peers]"``). A peer is a module of this folder with

``LIBRARY``, ``DTYPE``
    The array library that it computes with, and the dtype; ours runs on the same.
``SCORES``
    Pairs (our score, its score), each "analytic" or "autodiff".
``MOST_CHAINS``
    Where it stops.
``build(work, score)``
    ``run(seed) -> (draws, acceptance)``: every draw, (draw, chain, dim), and the mean acceptance probability of each
    chain, computed when it returns; what can be prepared or compiled once is.

Every peer has a process of its own, in which its runs and ours take turns.
"""
