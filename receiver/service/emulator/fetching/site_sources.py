"""Where the files of a given site are: in a folder, or in a mapping. Both are read anew for each request."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

_MAX_FILES = 200_000
"""The most files of a folder that are listed."""


class SiteFiles(Protocol):
    """The files of a site. Names have no leading slash, and no escapes: `docs/index.html`."""

    def read(self, name: str, max_bytes: int) -> str | bytes | None:
        """Return a file's content, cut one byte after `max_bytes`; None if there is no such file."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""

    def __contains__(self, name: object) -> bool: ...


class FolderFiles:
    """The files in a folder. No name, and no symbolic link, leads out of it; hidden files are not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return a file's content, cut one byte after `max_bytes`; None if there is no such file."""
        path = self._path(name)
        if path is None:
            return None
        try:
            # It does not wait for the writer of a pipe, and it follows no link that was made since.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with open(handle, "rb") as file:  # noqa: PTH123 - a Path cannot be opened by its descriptor
            return file.read(max_bytes + 1)

    def names(self) -> Iterator[str]:
        """Yield the names of all files, in order, without what is hidden."""
        count = 0
        for folder, folders, files in os.walk(self._folder):
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for file in sorted(files):
                name = (Path(folder) / file).relative_to(self._folder).as_posix()
                if name in self:
                    yield name
                count += 1
                if count >= _MAX_FILES:
                    return

    def __contains__(self, name: object) -> bool:
        path = self._path(str(name))
        return path is not None and path.is_file()

    def _path(self, name: str) -> Path | None:
        """Return the real path of a name; None if it is none of this folder."""
        if not _is_plain(name):
            return None
        try:
            (self._folder / name).stat()  # most names that are asked for are not there: this is the short way out
            root = os.path.realpath(self._folder)
            path = os.path.realpath(self._folder / name, strict=True)
        except (OSError, ValueError):
            return None
        inner = Path(path)
        if path == root or not inner.is_relative_to(root):
            return None
        parts = (*name.split("/"), *inner.relative_to(root).parts)
        return None if any(part.startswith(".") and part != ".well-known" for part in parts) else inner


def _is_plain(name: str) -> bool:
    """Tell whether a name is a path downwards: no part that is empty or dots, no NUL, no backslash."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") for part in parts) and not any(mark in name for mark in "\0\\")


class MappedFiles:
    """The files in a mapping. Its keys are absolute URLs or paths, as in links: `/docs/`, `/list?page=2`."""

    def __init__(self, origin: str, pages: Mapping[str, str | bytes]) -> None:
        self._origin = origin
        self._pages = pages

    def read(self, name: str, max_bytes: int) -> str | bytes | None:
        """Return a page's content, which may be larger than `max_bytes`; None if there is no such page."""
        key = self._key(name)
        return None if key is None else self._pages[key]

    def names(self) -> Iterator[str]:
        """Yield the names of all pages, in the order of the mapping, each without its query."""
        for key in list(self._pages):
            yield unquote(key.removeprefix(self._origin).partition("?")[0].removeprefix("/"))

    def __contains__(self, name: object) -> bool:
        return self._key(str(name)) is not None

    def _key(self, name: str) -> str | None:
        spellings = (name, quote(name, safe="/?&=%:+,;@$!*'()~", errors="surrogateescape"))
        keys = (f"{start}{one}" for one in spellings for start in (f"{self._origin}/", "/", ""))
        # The home page may be the bare origin.
        return next((key for key in (*keys, *([self._origin] if not name else [])) if key in self._pages), None)
