"""Benchmarks: `benchmarks` is run by airspeed velocity, `peers` by itself.

Importing this sets the libraries that are imported after it to one thread, unless the variable is set: threads that
wait for each other would count as CPU time.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")  # XLA's on a CPU, of which --xla_cpu_multi_thread_eigen=false leaves most
