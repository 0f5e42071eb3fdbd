"""What a run gives: recorders and their results, the trace, its table, diagnosis, plots and conversions."""
