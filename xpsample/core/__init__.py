"""The ground floor: arrays and trees, the backend's protocol and registry, devices, hyper-parameters, errors."""
