"""Reads PTX: the entries, functions and variables of a program.

Only declarations are read here. The machine reads the bodies of functions, when a
kernel is loaded. The interface of the machine in short:

- ``Program(text)`` has `entries`, `variables` and `files`.
- ``module.Module(program)`` places the variables, and refuses unknown instructions.
- ``_memory.Memory`` lists what a kernel may access: addresses of the host, by name.
- ``machine.launch(module, entry, grid, block, parameters, ...)`` runs a kernel, or
  raises `KernelError`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BYTES = {
    f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64, 128)
} | {"pred": 1, "bf16": 2, "f16x2": 4, "bf16x2": 4, "texref": 8, "surfref": 8}
"""Bytes of each type."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_TOP = re.compile(
    r"(?P<linking>(?:\.(?:visible|weak|extern|common)\s+)*)"
    r"\.(?P<kind>entry|func|global|const|shared|alias|section|loc)\b"
)
_DECLARED = re.compile(
    r"(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s*)?"
    r"(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.v(?P<vector>[248])\s*)?"
    r"\.(?P<type>\w+)\s+"
    r"(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?"
    r"(?P<name>[\w$%.]+)\s*(?P<array>(?:\[\s*\d*\s*\]\s*)*)"
    r"(?:=\s*(?P<value>.*))?$",
    re.DOTALL,
)
_HEAD = re.compile(
    r"\s*(?:\((?P<result>[^)]*)\))?\s*(?P<name>[\w$]+)\s*(?:\((?P<parameters>[^)]*)\))?"
)
_TOOLKIT = re.compile(r"/(nvidia|cuda|cuda-[\d.]+|cupy)/(.*/)?include/")
_BRACE = re.compile(r"[{}]")
_VALUE = re.compile(r"[^\s,{}]+(?:\s*\+\s*\d+)?")


class PtxError(ValueError):
    """A text is not PTX that the machine can run. The message has the line."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its place in the buffer of a launch, in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Function:
    """A kernel or a function: its declarations, and the text and line of its body."""

    name: str
    is_entry: bool
    result: str
    parameter_text: str
    body: str
    line: int
    parameters: tuple[Parameter, ...] = ()
    cluster_blocks: int = 1

    @property
    def parameter_bytes(self) -> int:
        """The size of the buffer of a launch."""
        return max((p.offset + p.size for p in self.parameters), default=0)


@dataclass(frozen=True)
class Variable:
    """A variable of a program.

    Attributes
    ----------
    space : {"global", "const", "shared"}
    size, align : int
    data : bytes
        Its first bytes; the others are 0.
    links : list of (int, str, int)
        Addresses in the data: their offset, a symbol, and what is added to it.
    is_extern : bool
        Whether another program defines it. In shared memory: the dynamic memory.
    """

    name: str
    space: str
    size: int
    align: int
    data: bytes = b""
    links: list[tuple[int, str, int]] = field(default_factory=list)
    is_extern: bool = False


class Program:
    """The declarations of a PTX text.

    Attributes
    ----------
    functions : dict of str to Function
        All functions with a body, by their symbol.
    entries : dict of str to Function
        The functions that can be launched.
    variables : dict of str to Variable
    files : dict of int to str
        The numbers of the source files.
    target : int
        The compute capability times 10.

    Raises
    ------
    PtxError
        With the line.
    """

    def __init__(self, text: str) -> None:
        self.files = {int(number): name for number, name in _FILE.findall(text)}
        target = _TARGET.search(text)
        if target is None:
            raise PtxError("PTX must have a .target, such as '.target sm_90'")
        self.target = int(target[1])
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self._text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
        self._lines = [found.start() for found in re.finditer("\n", self._text)]
        position = self._text.find(".address_size")
        while found := _TOP.search(self._text, max(position, 0)):
            if found["kind"] == "section":  # debug information is the last
                break
            position = self._read(found)

    @property
    def entries(self) -> dict[str, Function]:
        return {name: f for name, f in self.functions.items() if f.is_entry}

    def lines(self) -> list[str]:
        """The lines of the text, without comments."""
        return self._text.split("\n")

    def hidden_files(self) -> list[int]:
        """Files of the toolkit and of NVRTC; reports name the line that calls them."""
        return [
            number
            for number, name in self.files.items()
            if _TOOLKIT.search(name)
            or not (name.endswith("definitions") or Path(name).is_file())
        ]

    def _read(self, found: re.Match[str]) -> int:
        """Read a declaration; the position after it."""
        text, start = self._text, found.end()
        semicolon = text.find(";", start)
        if found["kind"] not in ("entry", "func"):
            if found["kind"] in ("global", "const", "shared"):
                self._add_variable(found, text[start:semicolon])
            return semicolon + 1
        brace = text.find("{", start)
        if brace < 0 or (0 <= semicolon < brace):  # a declaration without a body
            return semicolon + 1
        end = self._closing(brace)
        head = _HEAD.match(text, start)
        if head is None:
            raise PtxError(f"PTX line {self._line(start)}: a function without a name")
        parameters = head["parameters"] or ""
        self.functions[head["name"]] = Function(
            head["name"],
            found["kind"] == "entry",
            head["result"] or "",
            parameters,
            text[brace + 1 : end],
            self._line(brace),
            tuple(self._parameters(parameters, start))
            if found["kind"] == "entry"
            else (),
            _cluster_blocks(text[head.end() : brace]),
        )
        return end + 1

    def _closing(self, brace: int) -> int:
        """The position of the brace that closes a body."""
        depth = 0
        for found in _BRACE.finditer(self._text, brace):
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                return found.start()
        raise PtxError(f"PTX line {self._line(brace)}: a brace that is never closed")

    def _line(self, position: int) -> int:
        return bisect(self._lines, position - 1) + 1

    def _declared(self, text: str, position: int) -> re.Match[str]:
        found = _DECLARED.match(text.strip())
        if found is None or found["type"] not in BYTES:
            line = self._line(position)
            raise PtxError(f"PTX line {line}: not a declaration: {text.strip()[:80]}")
        return found

    def _parameters(self, text: str, position: int) -> Iterator[Parameter]:
        offset = 0
        for part in filter(str.strip, text.split(",")):
            found = self._declared(part.strip().removeprefix(".param"), position)
            size, align = _size(found), _align(found)
            offset = -(-offset // align) * align
            yield Parameter(found["name"], offset, size)
            offset += size

    def _add_variable(self, top: re.Match[str], text: str) -> None:
        found = self._declared(text, top.start())
        element, links, data = BYTES[found["type"]], [], b""
        for value in _VALUE.findall(found["value"] or ""):
            symbol = re.fullmatch(
                r"(?:generic\()?([A-Za-z_$][\w$]*)\)?(?:\s*\+\s*(\d+))?", value
            )
            if symbol:
                links.append((len(data), symbol[1], int(symbol[2] or 0)))
            data += (0 if symbol else number(value) % (1 << 8 * element)).to_bytes(
                element, "little"
            )
        self.variables[found["name"]] = Variable(
            found["name"],
            top["kind"],
            _size(found),
            _align(found),
            data,
            links,
            "extern" in top["linking"],
        )


def _cluster_blocks(directives: str) -> int:
    """Blocks of a cluster, from what stands between a head and its body."""
    found = re.search(r"\.reqnctapercluster\s+([\d\s,]+)", directives)
    return math.prod(map(int, found[1].split(","))) if found else 1


def _size(found: re.Match[str]) -> int:
    size = BYTES[found["type"]] * int(found["vector"] or 1)
    for count in re.findall(r"\[\s*(\d*)\s*\]", found["array"]):
        size *= int(count or 0)
    return size


def _align(found: re.Match[str]) -> int:
    own = BYTES[found["type"]] * int(found["vector"] or 1)
    return int(found["align"] or own)


def number(text: str) -> int:
    """The bits of a number in PTX."""
    if text[:2] in ("0f", "0F", "0d", "0D"):
        return int(text[2:], 16)
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    digits = digits.rstrip("U")
    octal = re.fullmatch("0[0-7]+", digits)
    return sign * int(digits, 8 if octal else 0)
