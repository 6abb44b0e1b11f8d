"""Packages that run their own code only when one of its names is asked for."""

import threading
from types import ModuleType
from typing import Any

_BEGUN = "_late_begun"
_LOCK = threading.RLock()


class LatePackage(ModuleType):
    """A package whose modules can be imported without what the package itself imports."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if not name.startswith("__") and spec is not None and spec.loader is not None:
            with _LOCK:
                if _BEGUN not in self.__dict__:
                    self.__dict__[_BEGUN] = True
                    spec.loader.exec_module(self)
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
