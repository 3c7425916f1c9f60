"""The arguments of ``lsq_linear`` as a batch that is solved block by block.

The arrays may be larger than memory: they are never read or converted as a
whole. A block is a slice along each axis of the batch. An argument without an axis, or
with the length 1 there, is the same in all blocks along this axis.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, as_array, is_dask
from .._device.launch import pieces
from .._numerics.solution import AnySolution, ConstrainedSolution, Solution
from .axes import AXES, batch_axes
from .inputs import NAMES, Problem, batch_of, validate

Block = tuple[slice, ...]
"""A slice of each axis of the batch."""

Solve = Callable[..., Any]
"""``least_squares``, or the same for quadratic programs; it returns an `NNLSResult`."""


class Batch(NamedTuple):
    """The arguments of a call, and the shapes and dtypes of its results.

    Attributes
    ----------
    arrays : dict of str to array
        The arguments with axes: NumPy's, CuPy's or Dask's arrays.
    numbers : dict
        The other arguments.
    shape : tuple of int
        The axes of the batch.
    blank : Solution
        The results of one system: the dtypes and the axes after the batch axes.
    solve : callable
        Solves systems by a method, given their arguments.
    """

    arrays: dict[str, Any]
    numbers: dict[str, Any]
    shape: tuple[int, ...]
    blank: AnySolution
    solve: Solve

    @classmethod
    def of(cls, given: dict[str, Any], solve: Solve) -> Batch:
        """Check the shapes and the dtypes of the arguments."""
        called = dict(zip(("A", "b"), NAMES[given.get("is_gram", False)], strict=True))
        arrays = {
            name: value if is_dask(value) else as_array(value, called.get(name, name))
            for name, value in given.items()
            if name in AXES and not (value is None or is_plain(value))
        }
        for name, array in arrays.items():
            if is_dask(array):
                check_chunks(name, array, called.get(name, name))
        plain = {name: value for name, value in given.items() if name not in arrays}
        system = {name: blank_argument(name, array) for name, array in arrays.items()}
        problem = validate(**plain, **system)
        shapes = {name: array.shape for name, array in arrays.items()}
        shape = batch_of(shapes, NAMES[problem.is_gram])
        return cls(arrays, plain, shape, blank_solution(problem), solve)

    def axes_of(self, name: str) -> tuple[int, ...]:
        """The lengths of the batch axes of an argument."""
        return batch_axes(name, self.arrays[name].shape)

    def is_shared(self, name: str) -> bool:
        """Whether all systems have the same values of an argument."""
        return math.prod(self.axes_of(name)) == 1

    def part(self, name: str, block: Block) -> Array:
        """The values of an argument in a block; views, where arrays have them."""
        return part_of_block(self.arrays[name], self.axes_of(name), block)

    @property
    def numbers_per_system(self) -> int:
        """Numbers that each system has of its own, in arguments and results."""
        own = [
            blank_argument(name, array)
            for name, array in self.arrays.items()
            if not self.is_shared(name)
        ]
        results = [field[0] for field in self.blank]
        return sum(math.prod(array.shape) for array in (*own, *results))


def blank_solution(problem: Problem) -> AnySolution:
    """The results of one system."""
    size = (1,), problem.shape[1], problem.dtype
    if not problem.has_constraints:
        return Solution.blank(*size)
    sides = problem.b_ub, problem.b_eq
    rows = (0 if side is None else side.shape[-1] for side in sides)
    return ConstrainedSolution.blank(*size, *rows)


def check_chunks(name: str, array: Any, called: str) -> None:
    """Raise ValueError unless each system is in one chunk.

    The message shows the call of ``rechunk`` that makes it so. It calls the argument
    `called`.
    """
    if any(math.isnan(length) for lengths in array.chunks for length in lengths):
        raise ValueError(
            f"{called} must have chunks of known sizes, got {array.chunks}: call "
            f"{called}.compute_chunk_sizes() first"
        )
    core = min(len(AXES[name]), array.ndim)
    last = range(array.ndim - core, array.ndim)
    if any(array.numblocks[axis] > 1 for axis in last):
        whole = ", ".join(f"{axis - array.ndim}: -1" for axis in last)
        raise ValueError(
            f"{called} must have one chunk along its last "
            f"{'axis' if core == 1 else f'{core} axes'}, got chunks {array.chunks}: "
            f"call {called}.rechunk({{{whole}}}) first"
        )


class Given(dict[str, Any]):
    """The fields of the `Problem` of a batch, read at the first access to a field."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self._batch = batch

    def __missing__(self, name: str) -> Any:
        batch = self._batch
        self.update(validate(**batch.numbers, **batch.arrays)._asdict())
        return self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({name: self[name] for name in Problem._fields},)


def is_plain(value: object) -> bool:
    """Whether a value is a number or a name, the same for all systems."""
    return isinstance(value, numbers.Number | np.bool_ | str)


def part_of_block(array: Array, lengths: tuple[int, ...], block: Block) -> Array:
    """The values of a block in an array with batch axes of these lengths; a view."""
    slices = block[len(block) - len(lengths) :]
    index = tuple(
        slice(None) if length == 1 else part
        for length, part in zip(lengths, slices, strict=True)
    )
    return array[index]


def blank_argument(name: str, array: Any) -> Array:
    """Zeros with the dtype and the shape of an argument for one system."""
    return np.zeros(array.shape[len(batch_axes(name, array.shape)) :], array.dtype)


def blocks(shape: tuple[int, ...], most: int) -> Iterator[Block]:
    """Blocks of a batch in order, each of 1 to `most` systems.

    The last axes are whole, one axis is cut, and the axes before it have the length 1.

    Examples
    --------
    >>> list(blocks((2, 3), 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    steps, left = [], max(1, most)
    for length in reversed(shape):
        steps.append(max(1, min(length, left)))
        left = left // length if 0 < length <= left else 1
    slices = [pieces(n, step) for n, step in zip(shape, reversed(steps), strict=True)]
    yield from itertools.product(*slices)
