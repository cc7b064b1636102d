"""What a release needs: a version that all agree on, versions that fit, and licences that may be used."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# --- the version


def disagreements(version: str, changelog: str, tags: list[str]) -> list[str]:
    """Return what does not fit together; `tags` are those of this commit."""
    headings = re.findall(r"^## (.+)$", changelog, flags=re.MULTILINE)
    released = [heading for heading in headings if heading.startswith(f"{version} - ")]
    wrong = [f"the tag {tag} is not v{version}" for tag in tags if tag.startswith("v") and tag != f"v{version}"]
    if f"v{version}" in tags and headings[:1] != released[:1]:
        wrong.append(f"the changelog does not begin with '## {version} - DATE'")
    if not released and headings[:1] != ["Unreleased"]:
        wrong.append(f"the changelog has neither {version} nor, at its top, what is not released yet")
    return wrong + [f"no date: {one}" for one in released if not re.search(r" - \d{4}-\d\d-\d\d$", one)]


def test_version_changelog_and_tag_agree() -> None:
    """A tag on this commit, the version in pyproject.toml and the top of the changelog say the same."""
    tags = []
    if (ROOT / ".git").exists():
        command = ("git", "tag", "--points-at", "HEAD")
        tags = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert disagreements(PROJECT["version"], changelog, tags) == []


@pytest.mark.parametrize(
    ("changelog", "tags", "wrong"),
    [
        ("## Unreleased\n", [], []),
        ("## 1.2.0 - 2026-01-31\n", ["v1.2.0"], []),
        ("## 1.2.0 - 2026-01-31\n", [], []),
        ("## Unreleased\n", ["v1.2.0"], ["the changelog does not begin with '## 1.2.0 - DATE'"]),
        ("## 1.2.0 - 2026-01-31\n", ["v1.3.0"], ["the tag v1.3.0 is not v1.2.0"]),
        ("## 1.2.0 - soon\n", [], ["no date: 1.2.0 - soon"]),
        (
            "## 1.1.0 - 2026-01-31\n",
            [],
            ["the changelog has neither 1.2.0 nor, at its top, what is not released yet"],
        ),
    ],
)
def test_a_version_that_is_not_everywhere_is_found(changelog: str, tags: list[str], wrong: list[str]) -> None:
    """The check can fail."""
    assert disagreements("1.2.0", changelog, tags) == wrong


# --- the dependencies


def requirements() -> Iterator[Requirement]:
    """Yield what the package and all its extras ask for directly."""
    extras = PROJECT["optional-dependencies"].values()
    for line in [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]:
        if (requirement := Requirement(line)).name != PROJECT["name"]:
            yield requirement


def test_constraints_fit() -> None:
    """Every line pins one version, and every direct dependency has one that fits. `.ci/constraints` makes them."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {_normal(name): Version(version) for name, version in pins.items()}

    missing = [one.name for one in requirements() if _normal(one.name) not in versions]
    known = [one for one in requirements() if one.name not in missing]
    unfit = [str(one) for one in known if versions[_normal(one.name)] not in one.specifier]
    assert (missing, unfit) == ([], [])


def _normal(name: str) -> str:
    """Write a name as PyPI compares it: https://packaging.python.org/en/latest/specifications/name-normalization/."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(*extras: str) -> dict[str, metadata.Distribution]:
    """Return the distributions that an installation with these extras brings, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(PROJECT["name"], set(extras))]
    while waiting:
        name, wanted = waiting.pop()
        distribution = metadata.distribution(name)
        if name != PROJECT["name"]:
            found[name] = distribution
        for line in distribution.requires or ():
            one = Requirement(line)
            needed = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (wanted or {""}))
            if needed and _normal(one.name) not in found and one.name != PROJECT["name"]:
                waiting.append((_normal(one.name), one.extras))
    return found


def licence(distribution: metadata.Distribution) -> str:
    """Return what a distribution says of its licence, by the newest of the fields that it may use."""
    about = distribution.metadata
    if "License-Expression" in about:  # https://peps.python.org/pep-0639/
        return about["License-Expression"]
    classifiers = [one for one in about.get_all("Classifier") or () if one.startswith("License ::")]
    if classifiers:
        return "; ".join(one.rpartition(" :: ")[2] for one in classifiers)
    return about["License"].splitlines()[0] if about["License"] else "unknown"


def unusable(terms: str) -> bool:
    """Tell whether terms would bind those who use the receiver to the GPL or AGPL. The LGPL does not."""
    return re.search(r"(?<!L)(?<!Lesser )(GPL|General Public License)", terms) is not None


@pytest.mark.parametrize("terms", ["GPL-3.0-or-later", "AGPL-3.0", "GNU General Public License v3 (GPLv3)"])
def test_a_licence_that_binds_users_is_found(terms: str) -> None:
    """The check below can fail."""
    assert unusable(terms)


def test_no_dependency_binds_its_users_to_the_gpl() -> None:
    """Neither the core nor an extra that users install brings such a package, and each says its licence."""
    extras = [name for name in PROJECT["optional-dependencies"] if name not in ("test", "dev")]
    found = {name: licence(distribution) for name, distribution in installed(*extras).items()}

    assert {name: terms for name, terms in found.items() if unusable(terms) or terms == "unknown"} == {}
    assert {name for name, terms in found.items() if "LGPL" in terms} <= {"psycopg", "psycopg-binary"}
    assert len(found) > len(PROJECT["dependencies"])
