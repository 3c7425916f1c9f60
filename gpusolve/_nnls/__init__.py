"""Non-negative least squares: the entrance, the kernel path and the CPU paths."""
