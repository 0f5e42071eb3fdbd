"""Runs of anything that makes steps: blocks of them, and what happens between two blocks."""
