"""Programming languages and media types of files, by their names. Uses editors' language ids."""

from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mimetypes import MimeTypes

_EXTENSIONS = {
    "c": "c h",
    "clojure": "clj cljc cljs",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "css": "css",
    "dart": "dart",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "fsharp": "fs fsx",
    "go": "go",
    "graphql": "gql graphql",
    "haskell": "hs",
    "html": "htm html",
    "java": "java",
    "javascript": "cjs js mjs",
    "javascriptreact": "jsx",
    "json": "json",
    "jsonc": "jsonc",
    "julia": "jl",
    "kotlin": "kt kts",
    "latex": "tex",
    "lua": "lua",
    "markdown": "markdown md",
    "nix": "nix",
    "objective-c": "m",
    "objective-cpp": "mm",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "proto": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rake rb",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala",
    "scss": "scss",
    "shellscript": "bash sh zsh",
    "sql": "sql",
    "svelte": "svelte",
    "swift": "swift",
    "terraform": "tf tfvars",
    "toml": "toml",
    "typescript": "cts mts ts",
    "typescriptreact": "tsx",
    "vue": "vue",
    "xml": "xml",
    "yaml": "yaml yml",
    "zig": "zig",
}
_BY_EXTENSION = {
    f".{extension}": name for name, line in _EXTENSIONS.items() for extension in line.split()
}
_BY_NAME = {
    "cmakelists.txt": "cmake",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "makefile": "makefile",
    "rakefile": "ruby",
}


def programming_language(path: PurePath) -> str | None:
    """The language id; None for an unknown name."""
    return _BY_NAME.get(path.name.lower()) or _BY_EXTENSION.get(path.suffix.lower())


def mime_type(path: PurePath) -> str | None:
    """The media type by the file name; None for a source file with the extension of an audio, video
    or image format."""
    found = _media_types().guess_type(path.name)[0]
    source = programming_language(path) is not None
    return None if source and found and found.startswith(("video/", "audio/", "image/")) else found


@cache
def _media_types() -> "MimeTypes":
    """Python's built-in types, without the machine's own files: the same everywhere."""
    from mimetypes import MimeTypes

    return MimeTypes()
