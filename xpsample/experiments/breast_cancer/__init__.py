"""The experiments of the README: logistic regression on real data."""
