"""Markov random fields, against their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from same_steps import assert_same_steps
from scipy.optimize import brentq
from scipy.sparse import csr_array
from together import together

from gpusolve.gam import BoostedGAM, bols, gamboost, load
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.terms import bmrf

pd = pytest.importorskip("pandas")

Floats = NDArray[np.float64]

NAMES = list("abcdef")

RING: dict[Any, list[Any]] = {
    name: [NAMES[j - 1], NAMES[(j + 1) % 6]] for j, name in enumerate(NAMES)
}
"""Six regions around a lake."""

LAPLACIAN = 2 * np.eye(6) - np.roll(np.eye(6), 1, 0) - np.roll(np.eye(6), -1, 0)


def adjacency() -> Floats:
    return 2 * np.eye(6) - LAPLACIAN


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    """Rows in all regions but the last."""
    region = rng.permutation(np.array(NAMES[:5] * 16))
    effect = dict(zip(NAMES, [0.0, 1.0, 2.0, 1.5, 1.0, 0.5], strict=True))
    y = np.array([effect[name] for name in region]) + rng.standard_normal(80)
    return {"region": region, "x": rng.random(80), "y": y}


def indicators(region: NDArray[Any]) -> Floats:
    return (region[:, None] == np.array(NAMES)).astype(float)


def test_the_penalty_is_the_laplacian_of_the_graph(data: Any) -> None:
    term = bmrf("region", neighbours=RING).learn(Frame.of(data))
    np.testing.assert_array_equal(term.penalty(), LAPLACIAN)
    assert term.null_dimension == 1
    two = {0: [1], 1: [0], 2: [3, 4], 3: [2], 4: [2], 5: []}
    islands = bmrf("g", neighbours=two).learn(Frame.of({"g": np.arange(6)}))
    assert islands.null_dimension == 3
    rank = np.linalg.matrix_rank(islands.penalty(), hermitian=True)
    assert rank == 3


def test_a_fit_is_penalised_least_squares_with_the_given_df(data: Any) -> None:
    model = gamboost(
        "y ~ bmrf(region, neighbours=RING, df=3)", data, max_iter=1, learning_rate=1
    )
    X, y = indicators(data["region"]), data["y"]
    G = X.T @ X

    def df(log_lambda: float) -> float:
        S = np.linalg.solve(G + np.exp(log_lambda) * LAPLACIAN, G)
        return float(np.trace(2 * S - S @ S))

    lambda_ = np.exp(brentq(lambda e: df(e) - 3, -10, 15))
    assert model.lambda_[0] == pytest.approx(lambda_, rel=1e-6)
    b = np.linalg.solve(G + model.lambda_[0] * LAPLACIAN, X.T @ (y - y.mean()))
    np.testing.assert_allclose(model.coefficients_[0], b, rtol=1e-6)
    assert b[5] == pytest.approx((b[4] + b[0]) / 2)  # a region without rows
    at = {"region": np.array(["f"])}
    assert model.partial_effect(0, at) == pytest.approx(b[5], rel=1e-6)


def test_a_centred_field_leaves_out_the_mean(data: Any) -> None:
    term = bmrf("region", neighbours=RING, center=True).learn(Frame.of(data))
    T = term.transform()
    assert T is not None
    np.testing.assert_allclose(T.T @ LAPLACIAN @ T, term.penalty(), atol=1e-12)
    np.testing.assert_allclose(T.sum(axis=0), 0, atol=1e-12)
    assert (term.null_dimension, len(term.penalty())) == (0, 5)


FORMS: dict[str, tuple[Any, list[Any]]] = {
    "mapping": (RING, NAMES),
    "pairs": ([(NAMES[j], NAMES[j - 1]) for j in (1, 2, 3, 4, 5, 0)], NAMES),
    "both directions": ([(i, j) for i in RING for j in RING[i]], NAMES),
    "matrix": (adjacency(), [*range(6)]),
    "sparse": (csr_array(adjacency()), [*range(6)]),
    "bools": (adjacency() > 0, [*range(6)]),
    "frame": (pd.DataFrame(adjacency(), NAMES, NAMES), NAMES),
}


@together("form", FORMS)
def test_every_form_of_the_neighbours(form: str) -> None:
    neighbours, regions = FORMS[form]
    term = bmrf("g", neighbours=neighbours)
    found = term.learn(Frame.of({"g": np.array(regions)})).penalty()
    place = [term.regions.index(region) for region in regions]
    np.testing.assert_array_equal(found[np.ix_(place, place)], LAPLACIAN)


def test_a_formula_a_picture_and_a_file(data: Any, tmp_path: Any) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    model = gamboost("y ~ bmrf(region, neighbours=RING, df=3) + bols(x)", data)
    assert model.names_ == ["bmrf(region, df=3)", "bols(x)"]
    figure = model.plot()
    texts = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    labels = [text.split(", ")[0] for text in texts]  # the rows of each follow
    assert labels == NAMES
    model.save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))


def test_kernels_take_the_steps_of_the_host(device_backend: Any, data: Any) -> None:
    terms = [bmrf("region", neighbours=RING, df=3), bols("x")]
    data["region"] = data["region"].astype(object)
    data["region"][:3] = None

    def fitted(device: str) -> BoostedGAM:
        model = BoostedGAM(terms, max_iter=8, missing="zero", device=device)
        return model.fit(data, data["y"])

    assert_same_steps(fitted, device_backend)
