"""The experiments of the Score-MH paper."""
