"""The kept list of a service's models, and the notice about the end of one."""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from alhena.config.home import config_home
from alhena.errors import AlhenaError
from alhena.models.catalogue import model_info, today
from alhena.models.served import ModelList, list_name, unwrap
from alhena.system.private_files import PrivateFiles

if TYPE_CHECKING:
    from alhena.models.generator import ContentGenerator

NOTICE_DAYS = 30
"""Days before its end from which on a model's end is named."""
_NAMED = "named-ends.json"


def open_list(generator: "ContentGenerator", environ: Mapping[str, str]) -> ModelList | None:
    """The list of the service behind a generator; None if that has none with limits."""
    inner = unwrap(generator, "list_models")
    if inner is None:
        return None
    files, name = _files(environ), list_name(*inner.origin)
    return ModelList(
        inner.list_models, lambda: files.read(name), lambda data: files.write(name, data)
    )


def _files(environ: Mapping[str, str]) -> PrivateFiles:
    return PrivateFiles(config_home(environ) / "tmp" / "model-lists")


def end_notices(model: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The announced end of a model that comes soon, once a day."""
    notice = describe_end(model)
    if not notice:
        return ()
    files = _files(environ)
    try:
        named = msgspec.json.decode(files.read(_NAMED) or b"{}", type=dict[str, str])
    except (AlhenaError, msgspec.DecodeError):
        named = {}
    if named.get(model) == today():
        return ()
    try:
        files.write(_NAMED, msgspec.json.encode(named | {model: today()}))
    except AlhenaError as error:
        return (notice, str(error))
    return (notice,)


def describe_end(model: str) -> str:
    """The announced end of a model that comes soon, or has come; "" without one."""
    ends = model_info(model).ends
    days = (date.fromisoformat(ends) - date.fromisoformat(today())).days if ends else 0
    if not ends or days > NOTICE_DAYS:
        return ""
    when = f"ends on {ends}" if days > 0 else f"ended on {ends}"
    return f"{model} {when}. Choose another model: see `alhena models list`."
