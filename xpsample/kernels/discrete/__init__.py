"""Kernels on discrete spaces: one file per algorithm."""
