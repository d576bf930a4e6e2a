"""What a linter cannot say: who may speak SQL, who may import what is dangerous, what the repository must not hold."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("domain", "store", "sandbox", "hints", "control", "api", "worker", "corrald", "bench", "sdk/corral")
LINES_MAX = 400


def modules(*packages: str) -> list[Path]:
    found = (path for package in packages or PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if path.parent.name != "versions")  # migrations are generated


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def importers_of(name: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in modules()
        if any(each == name or each.startswith(f"{name}.") for each in imports_of(path))
    }


def test_only_the_store_speaks_sql() -> None:
    allowed = ("store/", "corrald/", "bench/")
    speakers = importers_of("sqlalchemy") | importers_of("sqlmodel")
    statements = {
        str(path.relative_to(ROOT))
        for path in modules("api", "control", "corrald", "worker")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id in ("insert", "delete", "text")
        and any(name.startswith("sqlalchemy") for name in imports_of(path))
    }
    assert not statements
    # api and control hold sessions and engines, which are types of these libraries; they write no statement
    assert {each for each in speakers if not each.startswith((*allowed, "api/", "control/"))} == set()


def test_only_the_sandbox_imports_docker() -> None:
    assert all(each.startswith("sandbox/") for each in importers_of("docker"))


def test_only_one_module_imports_pynvml() -> None:
    assert importers_of("pynvml") == {"worker/gpus.py"}


def test_the_runner_needs_the_standard_library_only() -> None:
    ours = set(PACKAGES) | {"corral"}
    for path in modules("sandbox/runner"):
        roots = {name.split(".")[0] for name in imports_of(path)}
        assert not (roots & ours - {"sandbox"}), path
        third = roots & {"pydantic", "docker", "httpx2", "sqlmodel", "celery", "redis"}
        assert not third, path


def test_the_rules_know_no_clock_no_chance_and_no_world() -> None:
    worldly = {"time", "random", "secrets", "os", "pathlib", "socket", "subprocess", "threading"}
    for path in modules("domain"):
        assert not (set(imports_of(path)) & worldly), path


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_fits_a_room(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_nothing_is_left_open() -> None:
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|raise NotImplemented" r"Error")
    assert [str(path) for path in modules() if marks.search(path.read_text())] == []


def test_no_package_files_hide_the_real_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_what_is_imported_is_declared() -> None:
    """A dependency of a dependency may be gone with its next release."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = {canonicalize_name(re.split(r"[\[;<>= ]", each)[0]) for each in declared["project"]["dependencies"]}
    made_by = packages_distributions()
    ours = {*PACKAGES, "corral"}
    roots = {name.split(".")[0] for path in modules(*PACKAGES[:-1]) for name in imports_of(path)}
    foreign = roots - ours - sys.stdlib_module_names
    assert {root for root in foreign if not named & {canonicalize_name(each) for each in made_by[root]}} == set()
