"""Runs: the prepared sampler, its loop, noise, warm-up, callbacks, checkpoints and shards."""
