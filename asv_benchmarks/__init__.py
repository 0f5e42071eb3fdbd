"""Benchmarks: `benchmarks` is run by airspeed velocity, `peers` by itself."""
