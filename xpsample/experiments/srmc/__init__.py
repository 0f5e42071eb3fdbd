"""The experiments of the SRMC paper."""
