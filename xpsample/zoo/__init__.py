"""The zoo: problems, data sets and small networks that experiments, tests and benchmarks share."""
