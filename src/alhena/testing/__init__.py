"""For tests of programs: a model that gives the answers it was made with, recordings, and a lock
against real requests."""

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from alhena.library.recordings import no_real_requests, record, replay
    from alhena.models.providers.objects import Call, TestModel

__all__ = ["Call", "TestModel", "no_real_requests", "record", "replay"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'alhena.testing' has no attribute {name!r}")
    home = "models.providers.objects" if name in {"Call", "TestModel"} else "library.recordings"
    return getattr(import_module(f"alhena.{home}"), name)


def __dir__() -> list[str]:
    return __all__
