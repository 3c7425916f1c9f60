"""What every algorithm needs of a device: arrays, kernels, launch shapes, threads."""
