"""Batches with each option of `lsq_linear`, as one kind of a few systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusolve import reference

Array = np.ndarray[Any, Any]
Options = dict[str, Any]

DTYPES = np.float32, np.float64
METHODS = "auto", "gram", "qr"


def data(rng: np.random.Generator, shape: tuple[int, int], **options: Any) -> Options:
    A, b = rng.standard_normal((7, *shape)), rng.standard_normal((7, shape[0]))
    return {"A": A, "b": b, "bounds": (0.0, np.inf), **options}


def shared(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    batch = data(rng, shape)
    return {**batch, "A": batch["A"][0]}


def bounds(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    lower, upper = np.sort(rng.standard_normal((2, 7, shape[1])), axis=0)
    lower[:, ::3], upper[:, 1::3] = -np.inf, np.inf
    return data(rng, shape, bounds=(lower, upper))


def penalties(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    n = shape[1]
    return data(rng, shape, l1=rng.random(n), l2=rng.random((7, n)))


def squares(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Weights whose roots are exact, also in float32."""
    return (rng.integers(1, 17, shape) / 8) ** 2


def weights(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    return data(rng, shape, weights=squares(rng, (7, shape[0])))


def fixed_sum(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    return data(rng, shape, sum_to=1 + rng.random(7))


def warm_start(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    return data(rng, shape, warm_start=rng.standard_normal((7, shape[1])))


def strided(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    m, n = shape
    A, b = rng.standard_normal((n, 14, 3 * m)), rng.standard_normal((2 * m, 7))
    return data(rng, shape, A=A[:, ::2, ::-3].transpose(1, 2, 0), b=b[::2].T)


def broadcast(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    m, n = shape
    A, b = rng.standard_normal((3, 1, m, n)), rng.standard_normal((2, m))
    each = squares(rng, (3, 2, m))
    return data(rng, shape, A=A, b=b, l2=rng.random((2, n)), weights=each)


def not_finite(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    batch = data(rng, shape)
    batch["A"][2, -1:, -1:], batch["b"][4, -1:] = np.nan, -np.inf
    return batch


def all_options(rng: np.random.Generator, shape: tuple[int, int]) -> Options:
    options = penalties(rng, shape) | bounds(rng, shape) | weights(rng, shape)
    lower, upper = np.sort(rng.standard_normal((2, 7, shape[1])), axis=0)
    options["bounds"] = lower, upper
    return {**options, "sum_to": (lower + 0.3 * (upper - lower)).sum(axis=-1)}


KINDS = {
    kind.__name__: kind
    for kind in (
        *(data, shared, bounds, penalties, weights, fixed_sum, warm_start),
        *(strided, broadcast, not_finite, all_options),
    )
}


def problem(kind: str, shape: tuple[int, int], dtype: Any) -> Options:
    """A batch whose options are numbers of the dtype."""
    batch = KINDS[kind](np.random.default_rng([11, *shape]), shape)

    def rounded(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(rounded, value))
        return value.astype(dtype) if isinstance(value, np.ndarray) else value

    return {name: rounded(value) for name, value in batch.items()}


def differentiable(
    rng: np.random.Generator, systems: int = 3, m: int = 6, n: int = 3
) -> Options:
    """Arguments of `lsq_linear` in many shapes, for some systems.

    Some variables rest at bounds, and some inequalities hold with equality.
    """
    return {
        "A": rng.random((m, n)),
        "b": rng.standard_normal((systems, m)),
        "weights": 0.1 + rng.random((systems, m)),
        "l1": 0.1 * rng.random(()),
        "l2": rng.random((systems, 1)),
        "sum_to": 0.3 * rng.random(systems),
        "lower": -0.2 * np.ones(n),
        "upper": 0.3 + rng.random((systems, 1)),
        "A_ub": rng.standard_normal((systems, 2, n)),
        "b_ub": 0.01 * rng.random(2),
        "A_eq": rng.standard_normal((1, n)),
        "b_eq": 0.1 * rng.random((systems, 1)),
        "L": rng.random((systems, 2, n)),
        "lam": rng.random(systems),
        "prior": rng.random((1, n)),
    }


def solver(solvers: Any, names: tuple[str, ...]) -> Any:
    """The function of these arguments by position, of ``gpusolve`` or a framework."""

    def solve(*values: Any) -> Any:
        named = dict(zip(names, values, strict=True))
        if "upper" in named:
            named["bounds"] = named.pop("lower"), named.pop("upper")
        is_bounded = "bounds" in named or "A_ub" in named
        return (solvers.lsq_linear if is_bounded else solvers.nnls)(**named)

    return solve


def assert_same(found: Any, expected: Any, systems: Any = slice(None)) -> None:
    """All fields have the dtypes and the bits of some systems of another result."""
    for name, field in expected._asdict().items():
        if field is None:
            continue
        values = getattr(found, name)
        assert values.dtype == field.dtype
        other = field[systems] if np.ndim(field) else field
        np.testing.assert_array_equal(values, other, err_msg=name)


def specified(batch: Options) -> Any:
    """The solution of the specification in float64, from the same numbers."""

    def double(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(double, value))
        return np.asarray(value, np.float64) if value is not None else None

    return reference.nnls(**{name: double(value) for name, value in batch.items()})


def check_against_specification(found: Any, batch: Options, kind: str) -> None:
    """x is off by rounding in float64 and by rounding of x itself.

    A relative error of eps in A changes x by about ``cond**2``.
    """
    expected, eps = specified(batch), np.finfo(found.x.dtype).eps
    assert found.x.dtype == np.asarray(batch["A"]).dtype
    np.testing.assert_array_equal(found.status, expected.status)
    A = np.asarray(batch["A"], np.float64)
    A = np.where(np.isfinite(A), A, 1.0)
    close = 64 * np.finfo(np.float64).eps * np.linalg.cond(A)[..., None] ** 2
    close = close * (1 + np.nanmax(np.abs(expected.x)))
    close = close + 2 * eps * np.abs(expected.x)
    solved = found.status == 0
    assert (np.abs(found.x - expected.x) <= close)[solved].all()
    assert (found.kkt <= 16 * eps)[solved].all()
    assert np.isnan(found.x[found.status == 2]).all()
    assert solved.sum() >= (5 if kind == "not_finite" else found.status.size)
    lower, upper = (np.broadcast_to(k, found.x.shape) for k in batch["bounds"])
    assert ((found.x >= lower) & (found.x <= upper))[solved].all()
