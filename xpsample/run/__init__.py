"""Runs: `sample` and `steps`, the rounds of a warm-up, shards; from what is asked for to a trace."""
