"""The methods that Luo & Duraiswami compare theirs with, in NumPy: one file each."""
