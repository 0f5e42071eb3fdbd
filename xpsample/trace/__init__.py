"""Results of a run: recorders and their results, the trace, its table, diagnosis, plots and conversions."""
