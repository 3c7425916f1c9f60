"""The site: `make docs`. The source directory is the root of the repository.

So the notebooks, the measurements and ARCHITECTURE.md are pages where they stand, and a
link between two files works on a code host and on the site.
"""

import re
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import matplotlib
from docutils import nodes
from sphinx import addnodes
from sphinx.pycode.parser import VariableCommentPicker

import gpusolve

sys.path.append(str(Path(__file__).parent))
import start_chart

project = "gpusolve"
author = "The gpusolve developers"
copyright = "The gpusolve developers"
summary = metadata("gpusolve")["Summary"]
DESCRIPTION = f'<meta name="description" content="{summary}">'
version = release = gpusolve.__version__

extensions = [
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_codeautolink",
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

suppress_warnings = [
    "codeautolink.*",  # magics, and the links of the gallery
    "toc.not_included",  # names of the API
]
default_role = "autolink"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "off"  # the repository has the outputs: `make pictures`
codeautolink_concat_default = True  # the code of a page is one program
copybutton_exclude = ".linenos, .gp, .go"  # prompts and outputs
nb_ipywidgets_js = {}  # no notebook has widgets, so none are fetched
# Sphinx-Gallery returns to these defaults before each example.
matplotlib.rcParamsDefault.update(
    matplotlib.rc_params_from_file(Path(__file__).with_name("matplotlibrc"))
)

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

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = False  # options have none in the source of a function
maximum_signature_line_length = 60
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_filename_map = {"gpusolve.Map": "gpusolve.class-Map"}  # not gpusolve.map
numpydoc_show_class_members = False

GUIDE = ("docs/", "CHANGELOG")
"""The pages whose names are links."""

SPACES = ("gpusolve.gam", "gpusolve.emulator", "gpusolve.sparse")
"""Modules whose names the pages do not qualify."""


def escape_types(*event: Any) -> None:
    """Types and initials are plain text: ``(n, *element)``, ``[1] C. L. Lawson``."""
    lines = event[-1]
    for i, line in enumerate(lines):
        lines[i] = line = re.sub(r"^(\s*\.\. \[\d\] [A-Z])\.", r"\1\.", line)
        name, colon, kind = line.rpartition(" : ")
        if colon or line.lstrip().startswith("("):
            kind = re.sub(r"(?<![`*\w])\*(?=\w)|(?<=\w)_(?=\W)", r"\\\g<0>", kind)
            lines[i] = name + colon + kind


def hide_private_fields(*event: Any) -> tuple[str, str] | None:
    """The signature without the fields of a data class that only the package sets."""
    kind, _, signature, returned = event[1], *event[-3:]
    if kind == "class" and signature:
        signature = re.sub(r", _\w+: .*?(?=, \w+: |\)$)", "", signature)
    return signature, returned


def shorten_navigation(app: Any, tree: nodes.document) -> None:
    """Leave the names of the API out of the navigation, which every page repeats."""
    if app.env.docname.startswith("docs/api"):
        for toctree in list(tree.findall(addnodes.toctree)):
            toctree.parent.remove(toctree)


def link_names(app: Any, tree: nodes.document, page: str) -> None:
    """Link a public name in the text of a page of the guide to the API."""
    if not page.startswith(GUIDE):
        return
    documented = app.env.domains["py"].objects
    for literal in list(tree.findall(nodes.literal)):
        name = re.match(r"[\w.]+", literal.astext().removeprefix("gpusolve."))
        if not name or isinstance(literal.parent, nodes.reference | nodes.title):
            continue
        for space in ("gpusolve", *SPACES):
            if found := documented.get(f"{space}.{name[0]}"):
                uri = app.builder.get_relative_uri(page, found.docname)
                link = nodes.reference("", "", refuri=f"{uri}#{found.node_id}")
                literal.replace_self(link)
                link += literal
                break


def name_pictures(app: Any, tree: nodes.document, page: str) -> None:
    """Name a thumbnail by its link, and a picture of a notebook by its section."""
    for image in tree.findall(nodes.image):
        if not image.get("alt"):
            section = image
            while not isinstance(section, nodes.section):
                section = section.parent
            link = image.next_node(nodes.reference, siblings=True)
            name = f"Figure of the section: {section[0].astext()}"
            image["alt"] = link.astext() if link else name


def complete_page(*event: Any) -> None:
    """Correct roles and lists of Sphinx and its theme; describe the site to search."""
    page = event[3]
    page["metatags"] = page.get("metatags", "") + DESCRIPTION
    if tree := page.get("furo_navigation_tree"):
        page["furo_navigation_tree"] = tree.replace(
            'role="heading"', 'role="heading" aria-level="2"'
        )
    body = page.get("body", "").replace(
        '"citation-list" role="list"', '"citation-list"'
    )
    page["body"] = re.sub(
        r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>",  # the parameters of a signature
        lambda found: re.sub(r"<(/?)dd>", r"<\1span>", found[1]).replace(
            "<span><em", '<span class="sig-line"><em'
        ),
        body,
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_types, priority=400)
    app.connect("autodoc-process-signature", hide_private_fields)
    app.connect("doctree-read", shorten_navigation, priority=100)
    app.connect("doctree-resolved", link_names)
    app.connect("doctree-resolved", name_pictures)
    app.connect("html-page-context", complete_page, priority=900)
    # Overloads say which result an argument gives: pages show all arguments instead.
    VariableCommentPicker.add_overload_entry = lambda *_: None  # type: ignore


# ---- the chart of the start page -----------------------------------------------------

HERE = Path(__file__).parent
(HERE / "_build").mkdir(exist_ok=True)
(HERE / "_build" / "start_chart.html").write_text(
    start_chart.chart(HERE.parent / "benchmarks" / "results" / "nnls_cpu.json")
)

# ---- HTML: no font, script or style is fetched from elsewhere ------------------------

html_theme = "furo"
html_title = f"gpusolve {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_theme_options = {"top_of_page_buttons": []}  # no host of the sources is known
pygments_dark_style = "a11y-dark"
html_additional_pages = {"index": "start.html"}
html_show_sphinx = False
html_copy_source = False
mathjax_path = "mathjax/tex-chtml.js"
