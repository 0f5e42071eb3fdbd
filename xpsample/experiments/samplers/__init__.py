"""Samplers side by side, each with all settings unset, on targets of published comparisons."""
