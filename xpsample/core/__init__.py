"""The ground floor: arrays, trees, backends and their registry, devices, hyperparameters and errors."""
