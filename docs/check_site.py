"""Check the site that Sphinx built: links, ways to the API, search, and how it looks.

    python docs/check_site.py docs/_build/html

With Chromium, five pages are opened at two widths, light and dark: axe looks for
obstacles, nothing may be wider than the screen, and what matters must be on the first
screen. The screenshots are next to the site, in ``screenshots``.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

WIDTHS = 1280, 390
HEIGHT = 900
PAGES = {
    "docs/index": "pip install",
    "docs/least-squares": "",
    "docs/certificate": "",
    "docs/api": "nnls",
    "docs/api/gpusolve.nnls": "gpusolve.nnls",
}
"""Pages that a browser opens, and a text on the first screen of each."""

BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
TO_API = re.compile(r"\bapi[./]")
SEARCHED = "cite", "licens"  # stems, as in the index
SERIOUS = "serious", "critical"


class Page(HTMLParser):
    """Anchors, links, and what a browser fetches; `article` has links of the text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.article: list[str] = []
        self.unnamed: list[str] = []
        self._in_article = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        self._in_article |= tag == "article"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._in_article:
                self.article.append(given["href"])
        elif "src" in given or tag == "link":
            self.fetched.append(given.get("src") or given.get("href", ""))
        if tag == "img" and "alt" not in given:
            self.unnamed.append(given["src"])

    def handle_endtag(self, tag: str) -> None:
        self._in_article &= tag != "article"


@cache
def read(path: Path) -> Page:
    """The page of a file."""
    return Page(path)


def missing_anchor(page: Page, anchor: str, link: str) -> Iterator[str]:
    """The finding that a page does not have an anchor."""
    if anchor not in page.anchors:
        yield f"links to {link}, which has no such anchor"


def broken_links(path: Path) -> Iterator[str]:
    """Links and files that do not exist, and files of other hosts."""
    page = read(path)
    for link in [*page.links, *page.fetched]:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https", "mailto", "data"):
            if link in page.fetched and parts.scheme.startswith("http"):
                yield f"fetches {link}"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"links to {link}, which does not exist"
        elif target.suffix == ".html" and parts.fragment:
            yield from missing_anchor(read(target), unquote(parts.fragment), link)


def static_findings(site: Path) -> Iterator[str]:
    """What can be seen without a browser."""
    guide = site / "docs"
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        yield from (f"{name} {finding}" for finding in broken_links(path))
        yield from (f"{name} has no text for {src}" for src in read(path).unnamed)
        in_guide = path.parent in (guide, guide / "how-to", guide / "tutorials")
        if in_guide and not any(TO_API.search(link) for link in read(path).article):
            yield f"{name} has no way to the API"
    index = (site / "searchindex.js").read_text()
    yield from (f"search does not find {w}" for w in SEARCHED if f'"{w}":' not in index)


def browser_findings(site: Path, browser: str) -> Iterator[str]:
    """What a reader sees, and what a screen reader cannot."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    pictures = site.parent / "screenshots"
    pictures.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"]
        )
        for (name, text), width, scheme in product(
            PAGES.items(), WIDTHS, ("light", "dark")
        ):
            page = chromium.new_page(
                viewport={"width": width, "height": HEIGHT}, color_scheme=scheme
            )
            page.goto((site / f"{name}.html").as_uri())
            where = f"{name}, {width} px, {scheme}:"
            picture = f"{name.replace('/', '-')}-{width}-{scheme}.png"
            page.screenshot(path=pictures / picture)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                yield f"{where} wider than the screen"
            if text:
                box = page.locator(f"article :text({json.dumps(text)})").first
                place = box.bounding_box()
                if not place or place["y"] + place["height"] > HEIGHT:
                    yield f"{where} {text!r} is not on the first screen"
            for heading in page.locator("article th", has_text="meaning").all():
                place = heading.bounding_box()
                if not place or place["x"] + 60 > width:
                    yield f"{where} the column 'meaning' is not on the screen"
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in SERIOUS:
                    nodes = [node["html"][:120] for node in found["nodes"][:3]]
                    yield f"{where} {found['id']}: {found['help']}: {nodes}"
            page.close()
        chromium.close()


def main(site: Path) -> int:
    """Print the findings; 1 if there are any."""
    findings = list(static_findings(site))
    if browser := next(filter(None, map(shutil.which, BROWSERS)), None):
        findings += browser_findings(site, browser)
    else:
        print("no Chromium: pages are not looked at, and axe does not run")
    print("\n".join(findings) or "the site has no findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
