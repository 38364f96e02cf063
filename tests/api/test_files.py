"""Files with one thought: long enough to have one, in folders with enough of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "unmask"
LEAST_LINES, LEAST_FILES = 40, 5
FACES = ("__init__.py", "__main__.py")


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def short(folder: Path) -> list[str]:
    """Files of a few lines that are no faces of a folder, and register no sampler, language or task."""
    files = (path for path in sorted(folder.rglob("*.py")) if path.name not in FACES)
    files = (path for path in files if not re.search(r"^@[A-Z]+\.register\(", path.read_text(), re.MULTILINE))
    return [f"{path.relative_to(folder)}: {lines(path)} lines" for path in files if lines(path) < LEAST_LINES]


def small(folder: Path) -> list[str]:
    """Folders with few files and folders in them."""
    inside = {path for file in folder.rglob("*.py") for path in (file, *file.parents) if folder in path.parents}
    counts = Counter(path.parent for path in inside)
    return [f"{one.relative_to(folder)}: {count} files" for one, count in sorted(counts.items()) if count < LEAST_FILES]


def test_no_file_is_short():
    assert short(SOURCE) == [], "join it with the file that uses it"


def test_no_folder_is_small():
    assert small(SOURCE) == [], "join it with the folder above it"


def test_what_is_short_or_small_is_seen(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "errors.py").write_text("x = 1\n")
    (tmp_path / "core" / "__init__.py").write_text("")
    assert short(tmp_path) == ["core/errors.py: 1 lines"]
    assert small(tmp_path) == [".: 1 files", "core: 2 files"]
