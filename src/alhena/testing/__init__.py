"""For tests of programs: a model that gives the answers it was made with."""

from alhena.library.test_model import Call, TestModel

__all__ = ["Call", "TestModel"]
