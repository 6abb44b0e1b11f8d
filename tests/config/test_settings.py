import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.checking import load_settings
from alhena.config.home import config_home
from alhena.config.jsonc import strip_comments
from alhena.config.settings import Settings
from alhena.errors import ConfigError


def test_a_missing_or_empty_file_gives_the_defaults(project: Path):
    assert load_settings(project / "none.json") == Settings()
    (project / "empty.json").write_bytes(b" \n")
    assert load_settings(project / "empty.json") == Settings()


def test_comments_trailing_commas_and_foreign_keys_are_accepted(project: Path):
    file = project / "settings.json"
    file.write_text(
        '\ufeff{ // mine\n "model": {"name": "gemini-2.5-flash", /* x, */ "maxSessionTurns": 7,},\n'
        ' "mcpServers": {"a": {}}, "ui": {"theme": "http://not-a-comment"},\n}\n',
        encoding="utf-8",
    )
    settings = load_settings(file)
    assert (settings.model.name, settings.model.max_session_turns) == ("gemini-2.5-flash", 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "model": {"name": []}}', "$.model.name"),
        ('{\n\n "model": }', ":3:"),
        ('["a list"]', "Expected object"),
        ('{"general": {"defaultApprovalMode": "yolo"}}', "$.general.defaultApprovalMode"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(project: Path, text: str, said: str):
    file = project / "settings.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 52


def test_a_file_that_is_not_utf8_or_not_readable_is_named(project: Path):
    file = project / "settings.json"
    file.write_bytes(b'{\n"model": {"name": "\xff"}}')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(file)
    with pytest.raises(ConfigError, match="cannot read"):
        load_settings(project)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_stripping_comments_never_changes_plain_json(value: object):
    text = json.dumps(value, indent=1)
    assert json.loads(strip_comments(text)) == value


def test_the_home_follows_the_environment():
    assert config_home({"HOME": "/h"}) == Path("/h/.gemini")
    assert config_home({"HOME": "/h", "GEMINI_CLI_HOME": "/other"}) == Path("/other/.gemini")
    with pytest.raises(ConfigError):
        config_home({"HOME": "relative"})
