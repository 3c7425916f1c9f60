"""Non-negative least squares: the public function, the kernel and the CPU paths."""
