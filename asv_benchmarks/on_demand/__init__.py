"""What airspeed velocity measures where it is asked to: seconds of every kernel, and whatever takes long.

``asv run --python=same --config asv.on_demand.json`` in `asv_benchmarks`; the modules print tables when they are run.
"""

import sys
from pathlib import Path

# asv knows this folder as `on_demand`. xpsample is the one that is installed, or on the path that asv was given.
sys.path.insert(0, str(Path(__file__).parents[2]))
import asv_benchmarks  # noqa: F401  (sets one thread, before any array library is imported)

sys.path.pop(0)
