from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.settings import ToolSettings, settings_of
from alhena.errors import ConfigError
from alhena.system.errors import SandboxError
from alhena.system.sandbox.layout import (
    Mechanism,
    Profile,
    SandboxRequest,
    choose_sandbox,
    is_inside,
)


def tools(**values: Any) -> ToolSettings:
    return settings_of({"tools": values}, "a test").tools


def request_of(
    settings: ToolSettings, *, flag: bool | None = None, **environ: str
) -> SandboxRequest:
    wish = choose_sandbox(settings, flag, environ)
    assert wish is not None
    return wish


def test_nothing_is_wished_for_where_nothing_says_so():
    assert choose_sandbox(tools(), None, {}) is None
    assert choose_sandbox(tools(sandbox=False), None, {"GEMINI_SANDBOX": ""}) is None
    assert choose_sandbox(tools(sandbox={"enabled": False, "command": "bwrap"}), None, {}) is None


@pytest.mark.parametrize("value", [True, "true", "1", {}, {"enabled": True}])
def test_a_plain_yes_is_the_workspace_writable_and_the_network_there(value: object):
    wish = request_of(tools(sandbox=value))
    assert (wish.mechanism, wish.profile, wish.network) == (None, Profile.WORKSPACE_WRITE, True)


@pytest.mark.parametrize("no", ["false", "0", "False"])
def test_the_environment_beats_the_flag_and_the_flag_the_settings(no: str):
    assert choose_sandbox(tools(sandbox=True), True, {"GEMINI_SANDBOX": no}) is None
    assert choose_sandbox(tools(sandbox=False), False, {"GEMINI_SANDBOX": "true"}) is not None
    assert choose_sandbox(tools(sandbox=True), False, {}) is None
    assert choose_sandbox(tools(sandbox=False), True, {}) is not None


def test_words_choose_mechanism_profile_and_network_and_can_be_joined():
    wish = request_of(tools(), GEMINI_SANDBOX="bwrap+read-only, no-network")
    assert wish.mechanism is Mechanism.BWRAP
    assert wish.profile is Profile.READ_ONLY
    assert not wish.network
    assert wish.origin == "GEMINI_SANDBOX"


def test_an_object_names_the_same_things():
    wish = request_of(
        tools(
            sandbox={
                "command": "landlock",
                "profile": "read-only",
                "networkAccess": False,
                "allowedPaths": ["/b"],
            },
            sandboxAllowedPaths=["/a"],
        )
    )
    assert wish.mechanism is Mechanism.LANDLOCK
    assert wish.profile is Profile.READ_ONLY
    assert not wish.network
    assert wish.allowed_paths == ("/a", "/b")


@pytest.mark.parametrize(
    "values",
    [
        {"sandbox": True, "sandboxNetworkAccess": False},
        {"sandbox": {"network": False}},
        {"sandbox": {"network": True}, "sandboxNetworkAccess": False},
        {"sandbox": {"network": True, "profile": "no-network"}},
        {"sandbox": {"network": False, "networkAccess": True}},
    ],
)
def test_one_no_is_enough_to_cut_the_network(values: dict[str, Any]):
    assert not request_of(tools(**values)).network


def test_the_flag_and_the_environment_keep_the_details_of_the_settings():
    settings = tools(sandbox={"enabled": False, "profile": "read-only", "allowedPaths": ["/a"]})
    for wish in (request_of(settings, flag=True), request_of(settings, GEMINI_SANDBOX="bwrap")):
        assert wish.profile is Profile.READ_ONLY
        assert wish.allowed_paths == ("/a",)


@pytest.mark.parametrize("name", ["docker", "podman", "runsc", "lxc", "sandbox-exec"])
def test_a_container_engine_is_refused_by_name_and_never_taken_for_none(name: str):
    with pytest.raises(SandboxError, match=f"{name} is not supported here") as caught:
        choose_sandbox(tools(), None, {"GEMINI_SANDBOX": name})
    assert caught.value.exit_code == 44
    with pytest.raises(SandboxError):
        choose_sandbox(tools(sandbox={"command": name}), None, {})


@given(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))
def test_a_text_is_a_sandbox_or_a_no_or_an_error(text: str):
    words = {"true", "1", "bwrap", "landlock", "read-only", "workspace-write", "no-network"}
    try:
        wish = choose_sandbox(tools(), None, {"GEMINI_SANDBOX": text})
    except SandboxError:
        return
    if wish is None:
        assert text.strip().lower() in {"false", "0"}
    else:
        assert {word.strip().lower() for word in text.replace(",", "+").split("+")} <= words


def test_a_value_of_the_wrong_type_is_a_configuration_error():
    with pytest.raises(ConfigError, match="sandbox"):
        tools(sandbox=[3])


def test_inside_a_sandbox_is_what_says_so():
    assert is_inside({"SANDBOX": "name"})
    assert not is_inside({"SANDBOX": ""})
    assert not is_inside({})
