"""The experiments of the HiSS paper."""
