"""The part of a site that a crawl stays in, by the path of the URL that it starts at."""

import re

_EXTENSION = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""At the end of a file's path; a version such as `/v1.2` has none."""


def scope_folder(path: str) -> str:
    """Return the folder that is below a path, with its slash at the end; of a file, the folder that it is in."""
    if path.endswith("/") or _EXTENSION.search(path):
        return path[: path.rfind("/") + 1]
    return f"{path}/"


def is_in_scope(path: str, seed_path: str) -> bool:
    """Tell whether a path is in the scope of a seed.

    A seed that ends with a slash stands for all below it, a file for its folder, and any other for itself and all
    below.
    """
    folder = scope_folder(seed_path)
    is_seed = path == seed_path and folder == f"{seed_path}/"
    return is_seed or (path or "/").startswith(folder)
