"""What watches a run between blocks of steps: sums, `Until`, the progress bar, and watchers of the user's."""
