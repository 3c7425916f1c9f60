"""The compiled object of the CPU solver: choosing it for this CPU, and loading it.

Objects are built when the package is installed, never at run time. They are plain
shared objects with a C interface; ctypes releases the GIL while it calls them.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import NamedTuple

from .object_files import FOLDER, file_name, instruction_sets

INTERFACE = 5
"""The version of the C interface that is called from here, as in ``object.cpp``."""

ELF_64_BITS = b"\x7fELF\x02\x01"
"""The first bytes of an ELF object of 64 bits, little endian."""

HEAD_BYTES = 4096
"""The bytes at the beginning of an ELF object that contain its list of segments."""


class Choice(NamedTuple):
    """The object in use, or why there is none.

    Attributes
    ----------
    library : CDLL or None
    path : Path or None
        The file of the library.
    reason : str
        Why the library is missing; empty unless it is.
    """

    library: ctypes.CDLL | None
    path: Path | None
    reason: str


class RefusedError(Exception):
    """A file cannot be used as an object."""


def load() -> ctypes.CDLL | None:
    """The object for this CPU, or None if there is none that works.

    ``GPUSOLVE_OBJECT`` may have the path of another object, or ``none``. The object is
    loaded at the first call. Forked processes inherit it.
    """
    return chosen().library


def chosen() -> Choice:
    """The object in use, or why there is none."""
    wanted = os.environ.get("GPUSOLVE_OBJECT", "")
    if (found := _choices.get(wanted)) is None:
        # No lock, which a fork could leave closed: threads that load the same object at
        # the same time get the same object, and all threads keep the first choice.
        found = _choices.setdefault(wanted, choose(wanted))
    return found


_choices: dict[str, Choice] = {}
"""The choice for each value of the environment variable."""


def choose(wanted: str) -> Choice:
    """The object for a value of ``GPUSOLVE_OBJECT``; the best object if it is empty."""
    if wanted == "none":
        return Choice(None, None, "GPUSOLVE_OBJECT is none")
    folder = Path(__file__).parents[1] / FOLDER
    paths = [folder / file_name(name) for name in instruction_sets()]
    reasons = []
    for path in [Path(wanted)] if wanted else paths:
        try:
            return Choice(loaded(path), path, "")
        except RefusedError as error:
            reasons.append(f"{path.name} {error}")
    return Choice(None, None, "; ".join(reasons))


def loaded(path: Path) -> ctypes.CDLL:
    """Load an object; raise `RefusedError` if it does not work here."""
    check_length(path)
    try:
        library = declared(ctypes.CDLL(str(path.absolute())))
        version, supported = library.gpusolve_interface(), library.gpusolve_supports()
    except (OSError, AttributeError) as error:
        raise RefusedError(f"cannot be loaded: {error}") from None
    if version != INTERFACE:
        raise RefusedError("was built from another version of the sources")
    if not supported:
        raise RefusedError("needs instructions that this CPU does not have")
    return library


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the types of a library's functions."""
    library.gpusolve_instruction_set.restype = ctypes.c_char_p
    library.gpusolve_sources.restype = ctypes.c_char_p
    return library


def check_length(path: Path) -> None:
    """Raise `RefusedError` if a file is missing, or is an ELF object that was cut off.

    Linux kills a process that loads an object whose segments end after the file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise RefusedError("is missing") from None
    except OSError as error:
        raise RefusedError(f"cannot be read: {error.strerror}") from None
    if not head.startswith(ELF_64_BITS):
        return
    try:
        (start,) = struct.unpack_from("<Q", head, 0x20)
        size, count = struct.unpack_from("<HH", head, 0x36)
        segments = [
            struct.unpack_from("<IIQQQQ", head, start + k * size) for k in range(count)
        ]
    except (struct.error, OverflowError):
        raise RefusedError("is not complete") from None
    if any(offset + stored > length for _, _, offset, _, _, stored in segments):
        raise RefusedError("is not complete")


def instruction_set(library: ctypes.CDLL) -> str:
    """The instruction set that an object uses."""
    return str(library.gpusolve_instruction_set().decode())


def sources(library: ctypes.CDLL) -> str:
    """The hash of the sources that an object was built from."""
    return str(library.gpusolve_sources().decode())
