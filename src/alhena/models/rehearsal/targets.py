"""What a phrase names: a file, a folder, a place to look in, a glob pattern."""

import re

QUOTED = r"(?:\"[^\"]*\"|`[^`]*`|“[^”]*”|\u2018[^\u2019]*\u2019|(?<!\w)'[^']*'(?!\w))"
TARGET = rf"(?:{QUOTED}|[^\s,;]+)"
HERE = (
    r"(?:here|(?:(?:this|the|my|our)\s+)?(?:current\s+|whole\s+|entire\s+|working\s+|root\s+|same\s+)*"
    r"(?:folder|directory|dir|workspace|project|repo|repository|code\s?base|code|tree|everything)"
    r"(?:\s+(?:here|tree|structure))?|all\s+(?:the\s+)?files|everywhere)"
)
PLACE = (
    rf"(?:{HERE}|(?:the\s+)?(?:folder|directory|dir|file|files|path)\s+{TARGET}"
    rf"|(?:all\s+)?(?:the\s+)?{TARGET}(?:\s+(?:folder|directory|dir|file|files|sources?|code))?)"
)
PRONOUN = r"(?:it|that|this|them|(?:that|this|the)(?:\s+(?:same|new))?\s+file)"

_PAIRS = {'"': '"', "'": "'", "`": "`", "“": "”", "\u2018": "\u2019"}
_EXTENSIONS = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "rust": "rs",
    "golang": "go",
    "ruby": "rb",
    "shell": "sh",
    "bash": "sh",
    "yaml": "yaml",
    "text": "txt",
}
_SUFFIXES = frozenset(
    {
        "py",
        "pyi",
        "js",
        "jsx",
        "ts",
        "tsx",
        "md",
        "rst",
        "txt",
        "toml",
        "json",
        "jsonl",
        "yaml",
        "yml",
        "ini",
        "cfg",
        "go",
        "rs",
        "java",
        "kt",
        "c",
        "h",
        "cpp",
        "hpp",
        "cs",
        "rb",
        "php",
        "sh",
        "html",
        "css",
        "scss",
        "xml",
        "sql",
        "csv",
        "tsv",
        "lock",
        "log",
        "proto",
        "swift",
        "lua",
        "ipynb",
        "svg",
        "png",
        "jpg",
        "pdf",
    }
)
_NAMES_OF_FILES = frozenset(
    {
        "makefile",
        "dockerfile",
        "license",
        "licence",
        "readme",
        "changelog",
        "authors",
        "notice",
        "contributing",
        "codeowners",
        "procfile",
        "gemfile",
        "rakefile",
        "jenkinsfile",
        "vagrantfile",
        "justfile",
        ".gitignore",
        ".gitattributes",
        ".env",
        ".geminiignore",
        ".dockerignore",
        ".editorconfig",
        ".npmrc",
        ".bashrc",
        ".profile",
    }
)


def unquote(text: str) -> str:
    """`text` without its surrounding whitespace and one pair of quotes or backticks."""
    text = text.strip()
    if len(text) >= 2 and _PAIRS.get(text[0]) == text[-1]:
        return text[1:-1]
    return text


def quoted(text: str) -> bool:
    """Whether the whole text stands in quotes or backticks."""
    return re.fullmatch(QUOTED, text.strip(), re.DOTALL) is not None


def path_of(token: str) -> str:
    """A path as it was meant: unquoted, or without the punctuation of the sentence around it."""
    token = token.strip()
    if quoted(token):
        return unquote(token)
    trimmed = token.rstrip(",;:!?")
    if trimmed.endswith(".") and trimmed.rstrip(".") and trimmed[-2] not in "./":
        trimmed = trimmed[:-1]
    return trimmed


def is_file_name(path: str) -> bool:
    """Whether a path looks like a file's: by an extension or a well-known name."""
    name = path.rsplit("/", 1)[-1].lower()
    if name in _NAMES_OF_FILES:
        return True
    return re.fullmatch(r".*[^.\s]\.[a-z0-9_+~-]{1,10}", name, re.DOTALL) is not None


def folder_of(phrase: str) -> str | None:
    """The folder a phrase means ("this folder", "the src directory"), "." for the working
    directory, None when it rather names a file or nothing."""
    phrase = phrase.strip().rstrip("?!")
    if not phrase or re.fullmatch(HERE, phrase, re.IGNORECASE):
        return "."
    if re.fullmatch(PRONOUN, phrase, re.IGNORECASE):
        return None
    named = re.fullmatch(
        rf"(?:the\s+)?(?:(?:folder|directory|dir)\s+(?:called\s+|named\s+)?(?P<a>{TARGET})"
        rf"|(?P<b>{TARGET})\s+(?:folder|directory|dir))",
        phrase,
        re.IGNORECASE,
    )
    if named:
        return path_of(named["a"] or named["b"]) or None
    if not re.fullmatch(TARGET, phrase):
        return None
    path = path_of(phrase)
    return path if path and not is_file_name(path) and "*" not in path else None


def place_of(phrase: str | None) -> tuple[str, str]:
    """Where to look, as (path, include): "src", "*.py", "python files", "this folder"."""
    if phrase is None or re.fullmatch(HERE, phrase.strip(), re.IGNORECASE):
        return ".", ""
    kind = re.fullmatch(
        rf"(?:all\s+)?(?:the\s+)?({TARGET})\s+(?:files|sources?|code)",
        phrase.strip(),
        re.IGNORECASE,
    )
    if kind:
        return ".", _extension_glob(unquote(kind[1])) or unquote(kind[1])
    bare = re.sub(
        r"^(?:the\s+)?(?:(?:folder|directory|dir|files?|path)\s+)?", "", phrase, flags=re.IGNORECASE
    )
    bare = re.sub(r"\s+(?:folder|directory|dir|file)$", "", bare, flags=re.IGNORECASE)
    path = path_of(bare)
    if any(sign in path for sign in "*?["):
        return ".", path
    return path or ".", ""


def _extension_glob(word: str) -> str | None:
    """ "py", ".py", "*.py" or "python" as "*.py"."""
    plain = word.lower().removeprefix("*").removeprefix(".")
    if word.startswith((".", "*.")) and re.fullmatch(r"[\w+-]+", plain):
        return f"*.{plain}"
    suffix = _EXTENSIONS.get(plain, plain)
    return f"*.{suffix}" if suffix in _SUFFIXES else None


def glob_of(word: str, *, extension: bool = False) -> str:
    """The pattern that finds what `word` names anywhere below a folder."""
    word = path_of(word)
    if extension:
        return f"**/*.{word.removeprefix('*').removeprefix('.')}"
    if "/" in word:
        return word
    if any(sign in word for sign in "*?[{"):
        return f"**/{word}"
    return f"**/{word}" if is_file_name(word) else f"**/{word}*"


def kind_glob(word: str) -> str:
    """The pattern for "<word> files": by extension or language, else by part of the name."""
    word = path_of(word)
    by_extension = _extension_glob(word)
    if by_extension:
        return f"**/{by_extension}"
    return f"**/{word}" if any(sign in word for sign in "*?[") else f"**/*{word}*"
