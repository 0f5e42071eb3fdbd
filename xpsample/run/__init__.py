"""Runs: sample and steps, their programs, the warm-up, shards, stores and checkpoints."""
