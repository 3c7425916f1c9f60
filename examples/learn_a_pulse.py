"""
Learning the width of a pulse
=============================

A detector sees reflections of a pulse of unknown width. x is deconvolved from the even
samples, and must predict the odd samples. The gradient of the prediction error goes
through the solver, and improves the width and the penalty.
"""

import matplotlib.pyplot as plt
import torch

import gpusolve.torch

torch.manual_seed(0)
t = torch.arange(60.0, dtype=torch.float64)


def pulses(width):
    return torch.exp(-(((t[:, None] - t) / width) ** 2) / 2)


arrivals = torch.rand(30, 60, dtype=t.dtype) * (torch.rand(30, 60) < 0.06)
b = arrivals @ pulses(4.0).T + 0.02 * torch.randn(30, 60, dtype=t.dtype)
logs = torch.tensor([1.0, -3.0], dtype=t.dtype, requires_grad=True)
optimizer = torch.optim.Adam([logs], lr=0.15)
widths = []
for _ in range(25):
    width, penalty = logs.exp()
    A = pulses(width)
    x = gpusolve.torch.nnls(A[::2], b[:, ::2], l1=penalty)
    loss = (x @ A[1::2].T - b[:, 1::2]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    widths.append(width.item())

print(f"width: {widths[-1]:.2f}")
plt.plot(widths)
plt.show()
