"""Benchmarks of xpsample, run by airspeed velocity: docs/performance.md says how, and what each of them tracks.

In the environment that is active, without the network and without building anything::

    cd asv_benchmarks
    asv machine --yes                                        # once: asv wants to know the machine
    asv run --python=same --launch-method forkserver         # everything
    asv run --python=same --quick --bench "Step.*'mala'"     # by class and parameters

A kernel's benchmarks bear the name of its file. A library or a device that is not here shows as n/a: `setup` raises
NotImplementedError.
"""
