"""The site: `make docs`. The source directory is the root of the repository.

So the notebooks, the measurements and ARCHITECTURE.md are pages where they stand, and a
link between two files works on a code host and on the site.
"""

import os
import re
from pathlib import Path
from typing import Any

import gpusolve

project = "gpusolve"
author = "The gpusolve developers"
copyright = "The gpusolve developers"
version = release = gpusolve.__version__

extensions = [
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "examples/**",
    "notebooks/*.ipynb",
    "benchmarks/results/*.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CREDITS.md",
    "RELEASING.md",
    "SECURITY.md",
]
exclude_patterns = [
    "docs/_*",
    "examples/GALLERY_HEADER.rst",
    "docs/gallery/*.ipynb",
    "docs/gallery/*.py",
    ".*",
    "build",
    "dist",
    "**/__pycache__",
]
templates_path = [str(Path(__file__).parent / "_templates")]

# ---- pages ---------------------------------------------------------------------------

default_role = "autolink"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The kernels of the notebooks find the package as this process does.
os.environ.setdefault("PYTHONPATH", str(Path(gpusolve.__file__).parents[1]))
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_ipywidgets_js = {}  # no notebook has widgets, so none are fetched

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "plot_gallery": "True",
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

autodoc_typehints = "none"  # docstrings tell types, with shapes
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_filename_map = {"gpusolve.Map": "gpusolve.class-Map"}  # not gpusolve.map
numpydoc_show_class_members = False


def escape_types(*event: Any) -> None:
    """Types are plain text: ``(n, *element)`` begins no emphasis."""
    lines = event[-1]
    for i, line in enumerate(lines):
        name, colon, kind = line.rpartition(" : ")
        if colon or line.lstrip().startswith("("):
            kind = re.sub(r"(?<![`*\w])\*(?=\w)|(?<=\w)_(?=\W)", r"\\\g<0>", kind)
            lines[i] = name + colon + kind


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_types, priority=400)


# ---- HTML: no font, script or style is fetched from elsewhere ------------------------

html_theme = "furo"
html_title = f"gpusolve {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "start.html"}
html_show_sphinx = False
html_copy_source = False
mathjax_path = "mathjax/tex-chtml.js"
