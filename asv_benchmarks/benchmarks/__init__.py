"""What airspeed velocity tracks by default: what a machine cannot blur, with some seconds beside it.

docs/developer/benchmarks.md says what each benchmark tracks. In the environment that is active, without the network and
without building anything::

    cd asv_benchmarks
    asv machine --yes                                        # once: asv wants to know the machine
    asv run --python=same --launch-method forkserver         # this folder
    asv run --python=same --config asv.on_demand.json        # the folder on_demand: seconds of everything, and more

A kernel's benchmarks bear the name of its file. A library or a device that is not here shows as n/a: `setup` raises
NotImplementedError.
"""

import sys
from pathlib import Path

# asv knows this folder as `benchmarks`. xpsample is the one that is installed, or on the path that asv was given.
sys.path.insert(0, str(Path(__file__).parents[2]))
import asv_benchmarks  # noqa: F401  (sets one thread, before any array library is imported)

sys.path.pop(0)
