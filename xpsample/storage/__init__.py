"""What a run keeps: checkpoints, stores of draws, what identifies it, and traces that are read from them."""
