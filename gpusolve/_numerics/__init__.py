"""What the specifications and the solvers share: scaling, certificates, results."""
