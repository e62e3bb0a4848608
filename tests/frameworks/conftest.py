"""Gives the tests what benchmarks/ knows of the examples."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def benchmarks(monkeypatch):
    """The module that reads the examples."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return importlib.import_module("frameworks_examples")
