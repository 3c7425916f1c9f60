"""The picture of the NNLS demo: before, after, and the truth if it is known."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial import KDTree

Floats = NDArray[np.float64]

DETAIL = 320
"""Side in pixels of the middle part that is shown, so that pixels are visible."""

GREYS, COLOURS = 64, 96
"""Entries of the PNG's palette; a palette keeps the file small."""


class Pictures(NamedTuple):
    """Three grey pictures (lines, size) and three in colour (lines, size, 3)."""

    blurred: Floats
    deblurred: Floats
    scene: Floats
    tissue: Floats
    haematoxylin: Floats
    dab: Floats


TITLES = (
    "Blurred, with noise",
    "Deblurred",
    "Photograph",
    "Stained tissue",
    "Haematoxylin alone",
    "DAB alone",
)


def detail(picture: Floats) -> Floats:
    """The middle of a picture, or all of a smaller picture."""
    middle = (
        slice(max(0, (size - DETAIL) // 2), (size + DETAIL) // 2)
        for size in picture.shape[:2]
    )
    return np.clip(picture[tuple(middle)], 0, 1)


def add_palette(rendered: Image.Image, tissue: Floats) -> Image.Image:
    """Replace each pixel by the nearest grey or colour of the tissue."""
    coloured = Image.fromarray((255 * tissue).astype(np.uint8)).quantize(COLOURS)
    greys = np.linspace(0, 255, GREYS).astype(int).repeat(3)
    palette = [*greys.tolist(), *(coloured.getpalette() or [])]
    nearest = KDTree(np.reshape(palette, (-1, 3))).query(np.asarray(rendered))[1]
    image = Image.fromarray(nearest.astype(np.uint8))
    image.putpalette(palette)
    return image


def draw(pictures: Pictures, path: Path) -> Path:
    """Write the picture as a PNG; return its path."""
    lines, columns = detail(pictures.scene).shape
    size = (9.9, 6.6 * lines / columns + 0.6)
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    axes = figure.subplots(2, 3)
    for axis, picture, title in zip(axes.flat, pictures, TITLES, strict=True):
        axis.imshow(detail(picture), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    rendered = Image.open(buffer).convert("RGB")
    tissue = np.hstack([detail(picture) for picture in pictures[3:]])
    add_palette(rendered, tissue).save(path, optimize=True)
    return path
