"""Benchmarks of xpsample, run by airspeed velocity.

In the environment that is active, without the network and without building anything::

    cd asv_benchmarks
    asv machine --yes                            # once: asv wants to know the machine
    asv run --quick --python=same                # everything once, in a few minutes
    asv run --python=same --bench "kernels.*MALA"
    asv run --quick --python=same --bench "Step.*'rwm'"  # by class and parameters; .ci/run has a smoke test

Over the history, in environments that asv makes (needs the network)::

    asv run v0.1.0..HEAD && asv publish && asv preview

A backend that is not installed shows as n/a: its `setup` raises NotImplementedError. Benchmarks of a kernel bear the
kernel's name.
"""
