"""Files of the user's that cannot be changed as they are."""

from pathlib import Path

import pytest

from alhena.config.jsonc import with_value
from alhena.errors import ConfigError
from alhena.frontends.shared.files import change_json


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"a": "\xff"}'])
@pytest.mark.parametrize(
    ("options", "remedy"),
    [({}, "Change it in an editor."), ({"remedy": "Write it yourself."}, "Write it yourself.")],
)
def test_a_file_that_cannot_be_changed_is_left_alone_with_the_callers_remedy(
    project: Path, content: bytes, options: dict[str, str], remedy: str
):
    file = project / "settings.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"settings\.json .*; it was left alone\.") as caught:
        change_json(file, lambda text: with_value(text, ("a",), 1), "unchanged", **options)
    assert caught.value.remedy == remedy
    assert file.read_bytes() == content
