"""The ground floor: arrays, trees, backends and their registry, devices, hyper-parameters and errors."""
