"""The command's entry point: handles `--version` itself, everything else in the front ends."""

import gc
import os
import sys

from alhena.version import __version__

YOUNG = 20_000
"""Allocations before the first garbage collection: the imports of a run create tens of thousands of
objects that all stay."""


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    arguments = sys.argv[1:]
    try:
        if arguments in (["--version"], ["-v"]):
            print(__version__, flush=True)
            return 0
        _use_utf8()
        gc.set_threshold(YOUNG)
        _import_msgspec()
        from alhena.frontends.main import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # The stream is unusable and would raise again at the interpreter's final flush.
        sys.stdout = None
        print(f"alhena: cannot write the result: {error.strerror}.", file=sys.stderr)
        return 1
    finally:
        gc.freeze()  # the rest is freed with the process, without a collection


UTF8_LOCALES = ("C.UTF-8", "C.utf8", "UTF-8")


def _use_utf8() -> None:
    """Makes file names and the locale of child processes UTF-8, whatever the locale here. Python
    decides on file names when it starts, so it may have to start again."""
    environ = os.environ
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if "utf8" not in named.lower().replace("-", "") and (utf8 := _find_utf8_locale()):
        if "LC_ALL" in environ:
            environ["LANG"] = environ.pop("LC_ALL")  # the language stays
        environ["LC_CTYPE"] = utf8
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  itself


def _find_utf8_locale() -> str | None:
    import locale

    before = locale.setlocale(locale.LC_CTYPE)
    for name in UTF8_LOCALES:
        try:
            locale.setlocale(locale.LC_CTYPE, name)
        except locale.Error:
            continue
        locale.setlocale(locale.LC_CTYPE, before)
        return name
    return None


def _import_msgspec() -> None:
    """Imports msgspec without two modules that take long to load: typing_extensions, which it
    prefers to `typing`, and platform, which `uuid` asks for the name of the system only."""
    from types import SimpleNamespace

    modules: dict[str, object] = sys.modules  # type: ignore[assignment]
    hidden: dict[str, object] = {"typing_extensions": None}
    if sys.platform != "win32":
        system = os.uname().sysname
        hidden["platform"] = SimpleNamespace(system=lambda: system)
    hidden = {name: stand_in for name, stand_in in hidden.items() if name not in modules}
    modules |= hidden
    __import__("msgspec")
    for name in hidden:
        del modules[name]


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # `python -m` would import from the folder that it works in
    sys.exit(main())
