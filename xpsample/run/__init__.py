"""Runs: sample and steps, the program, the eager loop, noise, recorders, traces and checkpoints."""
