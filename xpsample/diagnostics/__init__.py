"""Diagnostics of runs: ESS and R-hat, findings and their order, and the diagnosis that applies them."""
