"""Tests of models share a process, and the system gives ports again."""

import pytest

from alhena.models.providers import anthropic_api, openai_compatible


@pytest.fixture(autouse=True)
def nothing_learned(monkeypatch: pytest.MonkeyPatch):
    """No server of an earlier test had the same port."""
    monkeypatch.setattr(openai_compatible, "_LEARNED", {})
    monkeypatch.setattr(anthropic_api, "_UNMARKED", set())
