"""Particles: sets of chains that are weighted, resampled, annealed or moved together."""
