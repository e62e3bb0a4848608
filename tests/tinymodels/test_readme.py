"""The guided walk leads to every file, and nowhere else."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tinymodels"
LINKS = set(re.findall(r"\]\(([^)]+)\)", (FOLDER / "README.md").read_text()))


def test_links_lead_somewhere():
    assert all((FOLDER / link).exists() for link in LINKS)


def test_every_file_is_on_the_way():
    files = [path for path in FOLDER.rglob("*.py") if "gallery" not in path.parts and path.name != "__init__.py"]
    assert {path.relative_to(FOLDER).as_posix() for path in files} <= LINKS
