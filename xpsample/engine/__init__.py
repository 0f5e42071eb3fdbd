"""Runs of anything that makes steps: noise, blocks of steps, and what happens between two blocks."""
