"""Hooks of mkdocs: an entry of the navigation that ends in `*` stands for all pages that match, an
index first; and the site loads nothing from elsewhere."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

SHIM = "https://unpkg.com/iframe-worker/shim"
"""The script of the theme that lets its search run in pages opened from files."""
OWN_SHIM = Path(__file__).with_name("frame_worker.js")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages in the place of patterns."""
    config.nav = _expand_entries(config.nav or [], Path(config.docs_dir))
    return config


def _expand_entries(entries: list[Any], docs: Path) -> list[Any]:
    expanded: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            expanded += _matching_pages(entry, docs)
            continue
        ((title, inner),) = entry.items()
        if isinstance(inner, str) and inner.endswith("*"):
            inner = _matching_pages(inner, docs)
        elif isinstance(inner, list):
            inner = _expand_entries(inner, docs)
        if inner:
            expanded.append({title: inner})
    return expanded


def _matching_pages(pattern: str, docs: Path) -> list[Any]:
    if not pattern.endswith("*"):
        return [pattern]
    found = [path for path in docs.glob(pattern) if path.suffix == ".md"]
    found.sort(key=lambda path: (path.stem != "index", path.stem))
    return [_entry(path, path.relative_to(docs).as_posix()) for path in found]


def _entry(path: Path, name: str) -> Any:
    """A page with its heading, which mkdocs does not find after a comment. An index stays a name:
    it is the page of its section."""
    lines = path.read_text(encoding="utf-8").splitlines()
    title = next((line[2:] for line in lines if line.startswith("# ")), path.stem)
    return name if path.stem == "index" else {title: name}


def on_post_template(output_content: str, **_: Any) -> str:
    """Puts our script in the place of the one from elsewhere (404.html)."""
    return _without_foreign_script(output_content)


def on_post_page(output: str, **_: Any) -> str:
    """Puts our script in the place of the one from elsewhere."""
    return _without_foreign_script(output)


def _without_foreign_script(html: str) -> str:
    own = OWN_SHIM.read_text(encoding="utf-8").replace("</script>", "<\\/script>")
    return html.replace(f'<script src="{SHIM}"></script>', f"<script>{own}</script>")
