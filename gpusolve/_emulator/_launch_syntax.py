"""Replaces ``kernel<<<grid, block>>>(arguments)`` by C++ that launches the kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_TOKEN = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/                  # a comment
    | R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | <<\s*<(?!<)
    """,
    re.VERBOSE | re.DOTALL,
)
"""A comment, a string, a character, or the beginning of a launch's configuration."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)

_END = re.compile(r">>\s*>")
_NAME = re.compile(r"[\w:]+$")
_PAIRS = {">": "<", ")": "("}

_LAUNCHER = (
    "emulator::launcher({quoted}, emulator::Configuration{{{configuration}}}, "
    "[=](auto... emulated) EMULATOR_UNCHECKED {{ {kernel}(emulated...); }})"
)


def program_text(file: Path, search: Sequence[Path]) -> str:
    """The text of a program with launchers, and with its headers that have launches.

    Parameters
    ----------
    file : Path
    search : sequence of Path
        Directories of headers, after the directory of the file that includes them.
    """
    return _with_headers(file, search, set(), ())


def _with_headers(
    file: Path, search: Sequence[Path], once: set[Path], including: tuple[Path, ...]
) -> str:
    text = with_launchers(file.read_text())

    def replaced(found: re.Match[str]) -> str:
        candidates = (directory / found[1] for directory in (file.parent, *search))
        header = next((path for path in candidates if path.is_file()), None)
        if header is None or header in including:
            return found[0]
        if header in once:
            return ""
        written = header.read_text()
        expanded = _with_headers(header, search, once, (*including, header))
        if "emulator::launcher(" not in expanded:
            return f'#include "{header}"'
        if _ONCE.search(written):
            once.add(header)
        line = text.count("\n", 0, found.end()) + 2
        return f'#line 1 "{header}"\n{expanded}\n#line {line} "{file}"'

    return _INCLUDE.sub(replaced, text)


def with_launchers(text: str) -> str:
    """The text, with an object instead of each ``kernel<<<...>>>``.

    The object is called with the kernel's arguments, which follow. Lines keep their
    numbers.

    Examples
    --------
    >>> text = with_launchers("add<float><<<2, 32>>>(x, n);")
    >>> print(text)  # doctest: +NORMALIZE_WHITESPACE
    emulator::launcher("add<float>", emulator::Configuration{2, 32},
    [=](auto... emulated) EMULATOR_UNCHECKED { add<float>(emulated...); })(x, n);

    Comments and strings are not changed:

    >>> with_launchers('puts("<<<"); // f<<<1, 1>>>()')
    'puts("<<<"); // f<<<1, 1>>>()'
    """
    pieces, done = [], 0
    for token in _TOKEN.finditer(text):
        if not token[0].startswith("<<") or token.start() < done:
            continue
        begin = _start_of_kernel(text, token.start())
        end = _end_of_configuration(text, token.end())
        if end is None:
            continue
        kernel = text[begin : token.start()].strip()
        pieces.append(text[done:begin])
        pieces.append(
            _LAUNCHER.format(
                quoted='"' + " ".join(kernel.replace('"', "'").split()) + '"',
                configuration=text[token.end() : end.start()],
                kernel=kernel,
            )
        )
        done = end.end()
    return "".join([*pieces, text[done:]])


def _start_of_kernel(text: str, end: int) -> int:
    """Where the expression begins that ends here: a name, perhaps with arguments."""
    position = len(text[:end].rstrip())
    while position and text[position - 1] in _PAIRS:
        position = _opening(text, position - 1)
        position = len(text[:position].rstrip())
    name = _NAME.search(text, 0, position)
    return name.start() if name else position


def _opening(text: str, closing: int) -> int:
    """The position of the bracket that this bracket closes."""
    close, opening, depth = text[closing], _PAIRS[text[closing]], 0
    for position in range(closing, -1, -1):
        depth += (text[position] == close) - (text[position] == opening)
        if depth == 0:
            return position
    return closing


def _end_of_configuration(text: str, begin: int) -> re.Match[str] | None:
    """The ``>>>`` that ends a configuration, or None."""
    depth = 0
    for position in range(begin, len(text)):
        depth += (text[position] in "([{") - (text[position] in ")]}")
        if depth == 0 and (end := _END.match(text, position)):
            return end
    return None
