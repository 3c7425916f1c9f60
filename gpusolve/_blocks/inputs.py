"""Validation of the inputs of the data-parallel blocks."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import (
    Array,
    as_array,
    asarray_like,
    broadcast_shapes,
    check_out,
    contiguous,
    is_cupy,
    namespace,
    on_one_device,
)
from .._device.kernels import CUDA_TYPES
from .._device.launch import CACHED, ceil_div
from ..monoid import (
    Map,
    Monoid,
    as_monoid,
    described,
    mssp,
    segment_sums_of_one,
    yields,
)

MAX_ELEMENT_BYTES = 256
"""Largest element. Threads keep elements in registers, blocks in shared memory."""
UNORDERED_VARIANTS = {"reduce512": 64, "atomic": 8, "atomic_each": 8}
"""Variants that combine elements in another order, and their largest element in bytes:
512 elements fit into shared memory; one atomic operation replaces an element."""


class Elements(NamedTuple):
    """Elements of a monoid, and the axes along which they are combined.

    Attributes
    ----------
    x : (..., *element) array
        Numbers, if there is a map.
    more : tuple of array
        If the map has several parameters: the other arrays, of the shape of x.
    monoid : Monoid
    map : Map or None
        Applied to each number first.
    axes : tuple of int
        In rising order, among the axes before the axes of an element.
    shape : tuple of int
        The shape without the axes of an element.
    dtype : dtype
        Of the results.
    """

    x: Array
    more: tuple[Array, ...]
    monoid: Monoid
    map: Map | None
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def leading(self) -> int:
        """Number of axes before the axes of an element."""
        return len(self.shape)

    def mapped(self) -> Array:
        """The elements of the monoid: NumPy applies the map."""
        return self.x if self.map is None else self.map.apply(self.x, *self.more)


class SegmentFlags(NamedTuple):
    """The flags of a segmented scan.

    Attributes
    ----------
    values : array
        bool, of the shape of the elements; or, if packed, bits in uint8.
    packed : bool
    """

    values: Array
    packed: bool

    def unpacked(self, n: int) -> SegmentFlags:
        """The flags of rows of n elements as bool."""
        if not self.packed:
            return self
        xp, bits = namespace(self.values), contiguous(self.values)
        flags = xp.unpackbits(bits.reshape(-1), bitorder="little")
        flags = flags.reshape(*bits.shape[:-1], 8 * bits.shape[-1])[..., :n]
        return SegmentFlags(flags.view(bool), packed=False)


# ---- the inputs of each function -----------------------------------------------------

# The first array is on the current device.


def map_inputs(f: Map, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The arrays of `map`, with equal shapes; TypeError or ValueError if invalid."""
    same = _broadcast(arrays)
    dtypes = [native_dtype(array.dtype, "arrays") for array in same]
    made = f.dtype_of(*dtypes)
    if made not in CUDA_TYPES:
        raise TypeError(f"f must return a dtype of kernels, got {made} from {f.name}")
    _check_element_size(f.name, math.prod(f.result_shape) * made.itemsize)
    pairs = zip(same, dtypes, strict=True)
    return tuple(array.astype(dtype, copy=False) for array, dtype in pairs)


def structures(x: Array) -> Array:
    """The input of `unzip`; ValueError for a scalar."""
    if x.ndim == 0:
        raise ValueError("x must have shape (..., k), got ()")
    return x


def reduce_inputs(
    x: tuple[Array, ...],
    op: str | Monoid,
    axis: int | Sequence[int] | None,
    map: Map | None,
    variant: str,
) -> Elements:
    """The inputs of `reduce`; TypeError or ValueError if they are invalid."""
    given = elements(x, op, map)
    if variant in UNORDERED_VARIANTS:
        _check_unordered(given, variant)
    return given._replace(axes=some_axes(axis, given.leading))


def maximum_segment_sum_inputs(x: Array) -> Elements:
    """The inputs of `maximum_segment_sum`; TypeError or ValueError if invalid."""
    if x.dtype.kind not in "if" or x.dtype.itemsize not in (4, 8):
        raise TypeError(
            f"x must have dtype int32, int64, float32 or float64, got {x.dtype}"
        )
    if x.ndim == 0:
        raise ValueError("x must have shape (..., n), got ()")
    return elements((x,), mssp, segment_sums_of_one)._replace(axes=(x.ndim - 1,))


def scan_inputs(
    x: tuple[Array, ...],
    op: str | Monoid,
    axis: object,
    map: Map | None,
    out: Array | None,
) -> Elements:
    """The inputs of `scan`; TypeError or ValueError if they are invalid."""
    given = elements(x, op, map)
    _check_scanned(given, out)
    return given._replace(axes=(one_axis(axis, given.leading),))


def segmented_scan_inputs(
    x: tuple[Array, ...],
    flags: object,
    op: str | Monoid,
    map: Map | None,
    packed: bool,
    out: Array | None,
) -> tuple[Elements, SegmentFlags]:
    """The inputs of `segmented_scan`; TypeError or ValueError if they are invalid."""
    given = elements(x, op, map)
    if not given.shape:
        raise ValueError("x must have shape (..., n, *element), got one element")
    _check_scanned(given, out)
    arrays = on_one_device({"x": given.x, "flags": asarray_like(given.x, flags)})
    starts = _segment_flags(arrays["flags"], given.shape, packed)
    return given._replace(axes=(given.leading - 1,)), SegmentFlags(starts, packed)


def segmented_reduce_inputs(
    x: Array, op: str | Monoid, bounds: object, name: str
) -> tuple[Elements, Array]:
    """The elements, and the lengths or offsets as `name` says, (m,) of int64."""
    given = elements((x,), op)
    if len(given.shape) != 1:
        raise ValueError(f"x must have shape (n, *element), got {given.x.shape}")
    arrays = on_one_device({"x": given.x, name: asarray_like(given.x, bounds)})
    return given._replace(axes=(0,)), integers(arrays[name], name)


def check_target(target: Any) -> None:
    """TypeError or ValueError unless `scatter` can write to it."""
    if not (isinstance(target, np.ndarray) or is_cupy(target)):
        raise TypeError(f"target must be an array, got {type(target).__name__}")
    if target.ndim == 0:
        raise ValueError("target must have shape (m, ...), got ()")
    if not target.flags.c_contiguous or not getattr(target.flags, "writeable", True):
        raise ValueError("target must be contiguous and writeable")
    if native_dtype(target.dtype, "target") != target.dtype:
        raise TypeError(
            f"target must be in native byte order, got dtype {target.dtype}"
        )


def scatter_inputs(
    target: Array, indices: object, values: object
) -> tuple[Array, Array]:
    """The indices, (n,), and the values, (n, ...), of `scatter`; else an error."""
    given = {"indices": indices, "values": values}
    like = {name: asarray_like(target, value) for name, value in given.items()}
    arrays = on_one_device({"target": target, **like})
    places = arrays["indices"]
    if places.size == 0:
        places = places.astype(np.int64)  # numpy.asarray([]) is float64
    if places.dtype.kind not in "iu":
        raise TypeError(f"indices must have an integer dtype, got {places.dtype}")
    if places.ndim != 1:
        raise ValueError(f"indices must have one axis, got shape {places.shape}")
    return places, _broadcast_values(arrays["values"], target, len(places))


def stable_partition_inputs(x: Array, mask: object) -> tuple[Array, Array | Map]:
    """The elements, and a mask or predicate of them; TypeError or ValueError else."""
    array = native(x, "x")
    if array.ndim != 1:
        raise ValueError(f"x must have one axis, got shape {array.shape}")
    if isinstance(mask, Map):
        return array, _check_predicate(mask, array)
    arrays = on_one_device({"x": array, "mask": asarray_like(array, mask)})
    kept = arrays["mask"]
    if kept.dtype != bool and kept.size:
        raise TypeError(f"mask must have dtype bool, got {kept.dtype}")
    if kept.shape != array.shape:
        raise ValueError(f"mask must have shape {array.shape}, got {kept.shape}")
    return array, kept.astype(bool, copy=False)


def check_offsets(offsets: Array, n: int, name: str) -> None:
    """Check that offsets divide n elements; one number is read from a device.

    `name` is what the caller gave: lengths or offsets.
    """
    xp = namespace(offsets)
    if len(offsets) == 0:
        raise ValueError("offsets must have at least one element, got none")
    least = xp.diff(offsets, append=offsets[-1:]).min()
    if bool((least >= 0) & (offsets[0] == 0) & (offsets[-1] == n)):
        return
    if least < 0:
        raise ValueError(
            f"{name} must not have segments of negative length, got {int(least)}"
        )
    if name == "lengths":
        raise ValueError(
            f"lengths must sum to the {n} elements of x, got {int(offsets[-1])}"
        )
    raise ValueError(
        f"offsets must go from 0 to {n}, the elements of x, got {int(offsets[0])} to "
        f"{int(offsets[-1])}"
    )


# ---- parts ---------------------------------------------------------------------------


def arrays_of(x: object, map: Map | None, name: str = "map") -> tuple[Array, ...]:
    """The array `x`, or the arrays for a map of several parameters.

    `name` is the name of the map's argument. The arrays may be on different devices.

    Raises
    ------
    TypeError, ValueError
        Unless `map` is a Map or None, and there is an array for each parameter.
    """
    if map is not None and not isinstance(map, Map):
        raise TypeError(f"{name} must be a gpusolve.Map, got {map!r}")
    if map is None or (map.arity == 1 and name == "map"):
        return (as_array(x, "x"),)
    if not isinstance(x, Sequence) or len(x) != map.arity:
        found = len(x) if isinstance(x, Sequence) else type(x).__name__
        raise ValueError(
            f"the arrays must be {map.arity}, one for each parameter of {map.name}, "
            f"got {found}"
        )
    first = as_array(x[0], "x")
    others = (as_array(asarray_like(first, value), "x") for value in x[1:])
    return first, *others


def elements(
    arrays: tuple[Array, ...], op: str | Monoid, map: Map | None = None
) -> Elements:
    """The elements of a monoid, along no axis yet.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not accept.
    ValueError
        If the last axes of `x` are not the axes of an element.
    """
    monoid = as_monoid(op)
    same = _broadcast(arrays)
    given, made = _dtypes_of(tuple([array.dtype for array in same]), monoid, map)
    element = monoid.element_shape if map is None else ()
    shape = same[0].shape
    leading = len(shape) - len(element)
    if leading < 0 or shape[leading:] != element:
        raise ValueError(
            f"x must end with the axes {element} of an element of {monoid.name}, got "
            f"shape {shape}"
        )
    pairs = zip(same, given, strict=True)
    x, *more = [array.astype(dtype, copy=False) for array, dtype in pairs]
    return Elements(x, tuple(more), monoid, map, (), shape[:leading], made)


def _broadcast(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The arrays, broadcast; an error if they are on different devices."""
    if len(arrays) == 1:
        return arrays
    on_one_device({f"array {k}": array for k, array in enumerate(arrays)})
    try:
        shape = broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        raise ValueError(
            f"arrays must broadcast, got shapes {[array.shape for array in arrays]}"
        ) from None
    return tuple(namespace(array).broadcast_to(array, shape) for array in arrays)


@functools.lru_cache(CACHED)
def _dtypes_of(
    given: tuple[np.dtype[Any], ...], monoid: Monoid, map: Map | None
) -> tuple[tuple[np.dtype[Any], ...], np.dtype[Any]]:
    """`given` in native byte order, and the dtype of the results.

    An error unless the operators accept it.
    """
    kinds = monoid.kinds if map is None else "biufc"
    dtypes = tuple(native_dtype(dtype, "x", kinds) for dtype in given)
    if map is not None:
        _check_map(map, monoid, dtypes)
    made = monoid.dtype_of(dtypes[0] if map is None else map.dtype_of(*dtypes))
    size = math.prod(monoid.element_shape) * made.itemsize
    _check_element_size(monoid.name, size)
    return dtypes, made


def native(array: Array, name: str, kinds: str = "biufc") -> Array:
    """`array` in native byte order; TypeError unless its dtype is of these kinds."""
    return array.astype(native_dtype(array.dtype, name, kinds), copy=False)


@functools.lru_cache(CACHED)
def native_dtype(
    given: np.dtype[Any], name: str, kinds: str = "biufc"
) -> np.dtype[Any]:
    """`given` in native byte order; TypeError unless kernels support it."""
    dtype = given.newbyteorder("=")
    if dtype not in CUDA_TYPES or dtype.kind not in kinds:
        accepted = sorted(str(key) for key in CUDA_TYPES if key.kind in kinds)
        raise TypeError(
            f"{name} must have one of the dtypes {', '.join(accepted)}, got {given}"
        )
    return dtype


def integers(array: Array, name: str) -> Array:
    """(m,) int64; TypeError or ValueError if `array` is something else."""
    empty_list = array.size == 0 and array.dtype == np.float64  # numpy.asarray([])
    if array.dtype.kind not in "iu" and not empty_list:
        raise TypeError(f"{name} must have an integer dtype, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {array.shape}")
    return array.astype(np.int64, copy=False)


def length(value: object, name: str) -> int:
    """`value` as an int; TypeError or ValueError unless it is a length."""
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if count < 0:
        raise ValueError(f"{name} must not be negative, got {count}")
    return count


def one_axis(axis: object, ndim: int) -> int:
    """`axis`, counted from the front; TypeError or ValueError if it is invalid."""
    try:
        index = operator.index(axis)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"axis must be an integer, got {axis!r}") from None
    if not -ndim <= index < ndim:
        raise ValueError(
            f"axis must be in [{-ndim}, {ndim}), the axes of the elements of x, got "
            f"{index}"
        )
    return index % ndim


def some_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in rising order; all for None.

    Raises
    ------
    TypeError, ValueError
        Unless they are distinct axes.
    """
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, Sequence) else (axis,)
    axes = tuple(one_axis(number, ndim) for number in listed)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis must not name an axis twice, got {axis!r}")
    return tuple(sorted(axes))


def check_variant(variant: str, variants: tuple[str, ...]) -> None:
    """ValueError unless `variant` is "auto" or among `variants`."""
    if variant != "auto" and variant not in variants:
        raise ValueError(
            f"variant must be one of {('auto', *variants)}, got {variant!r}"
        )


def _check_map(map: Map, monoid: Monoid, given: tuple[np.dtype[Any], ...]) -> None:
    dtype = map.dtype_of(*given)
    if dtype not in CUDA_TYPES or dtype.kind not in monoid.kinds:
        raise TypeError(
            f"map must return a dtype that {monoid.name} accepts, got {dtype} from "
            f"{map.name}"
        )
    if not yields(map.cuda, monoid.element_shape):
        raise ValueError(
            f"map must return elements of {monoid.name}, of shape "
            f"{monoid.element_shape}, got {described(map.cuda)} in {map.name}"
        )


def _check_element_size(name: str, size: int) -> None:
    if size > MAX_ELEMENT_BYTES:
        raise ValueError(
            f"an element of {name} must have at most {MAX_ELEMENT_BYTES} bytes, got "
            f"{size}"
        )


def _check_scanned(given: Elements, out: Array | None) -> None:
    shape = (*given.shape, *given.monoid.element_shape)
    check_out(out, given.x, "x", given.dtype, shape)


def _check_unordered(given: Elements, variant: str) -> None:
    monoid, dtype = given.monoid, given.dtype
    if not monoid.commutative:
        raise ValueError(
            f"variant {variant!r} combines the elements in another order, so op must "
            f"commute; {monoid.name} does not"
        )
    size = dtype.itemsize * math.prod(monoid.element_shape)
    if size > UNORDERED_VARIANTS[variant]:
        raise ValueError(
            f"variant {variant!r} needs elements of at most "
            f"{UNORDERED_VARIANTS[variant]} bytes, got {size} for {monoid.name} of "
            f"{dtype}"
        )


def _segment_flags(flags: Array, shape: tuple[int, ...], packed: bool) -> Array:
    """The flags as bool, or as packed bits, broadcast to the elements."""
    if packed:
        if flags.dtype != np.uint8:
            raise TypeError(f"packed flags must have dtype uint8, got {flags.dtype}")
        expected = (*shape[:-1], ceil_div(shape[-1], 8))
    else:
        if flags.dtype.kind not in "biu":
            raise TypeError(f"flags must have dtype bool or int, got {flags.dtype}")
        flags = flags if flags.dtype == bool else flags != 0
        expected = shape
    try:
        return namespace(flags).broadcast_to(flags, expected)
    except ValueError:
        raise ValueError(
            f"flags must broadcast to {expected} for elements of shape {shape}, got "
            f"{flags.shape}"
        ) from None


def _broadcast_values(values: Array, target: Array, n: int) -> Array:
    if not np.can_cast(values.dtype, target.dtype, "same_kind"):
        raise TypeError(
            f"values must be convertible to dtype {target.dtype}, got {values.dtype}"
        )
    shape = (n, *target.shape[1:])
    try:
        return namespace(target).broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"values must broadcast to {shape}, got {values.shape}"
        ) from None


def _check_predicate(predicate: Map, x: Array) -> Map:
    if predicate.arity > 1:
        raise ValueError(
            f"mask must have one parameter, got {predicate.arity} in {predicate.name}"
        )
    dtype = predicate.dtype_of(x.dtype)
    if dtype.kind != "b" or not isinstance(predicate.cuda, str):
        raise TypeError(f"mask must return one bool, got {dtype} from {predicate.name}")
    return predicate
