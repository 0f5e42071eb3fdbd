"""Samplers side by side, each with everything left out, on the targets that others compare theirs on."""
