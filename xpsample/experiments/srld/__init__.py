"""The experiments of the SRLD paper."""
