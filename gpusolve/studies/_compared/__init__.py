"""The methods with which Luo & Duraiswami compare, in NumPy: a file for each."""
