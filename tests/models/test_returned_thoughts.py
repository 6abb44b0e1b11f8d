"""Thoughts of Claude and of models behind chat completions go back to them as they came."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena import Agent, ModelSettings, Rule
from alhena.chat.turn import model_content
from alhena.models import Anthropic
from alhena.models.providers import openai_compatible
from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.fields import mark_redacted
from alhena.wire.dialects.thoughts import return_thoughts
from tests.models.test_openai_compatible import delta, stream
from tests.models.test_prompt_cache import CachingServer, files, reads, run
from tests.support.command import alhena, keyed
from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse
from tests.support.server import text as said

Block = dict[str, Any]


class ThinkingServer(CachingServer):
    """Thinks before the first call of a turn, and between texts and calls; remembers its answers."""

    def __init__(self, *steps: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(*steps)
        self.answers: list[list[Block]] = []

    def blocks(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Block]:
        number = len(self.requests)
        plain = super().blocks(calls)
        asked = self.requests[-1].json["messages"][-1]["content"]
        begins = all(block["type"] == "text" for block in asked)
        blocks = [thought(number, 0)] if begins or not calls else []
        if begins:
            hidden = {"type": "redacted_thinking", "data": "SEALED=="}
            blocks += [hidden, {"type": "text", "text": "I will read: "}, thought(number, 1)]
            blocks += [{"type": "text", "text": "some."}]
        for at, block in enumerate(plain):
            blocks += [thought(number, at + 2), block] if begins else [block]
        self.answers.append(blocks)
        return blocks

    def require_returned(self) -> None:
        """Every answer has come back as it was."""
        sent = [each for each in self.requests[-1].json["messages"] if each["role"] == "assistant"]
        found = [each["content"] for each in sent[1:]]
        for blocks in found:
            for block in blocks:
                block.pop("cache_control", None)
        assert found == self.answers[:-1]


def thought(number: int, at: int) -> Block:
    return {"type": "thinking", "thinking": f"hm {at}", "signature": f"S{number}/{at}=="}


@pytest.mark.requirement("COST-01")
async def test_a_turn_thinks_as_it_began_and_its_prefix_is_kept(project: Path):
    """With a budget of tokens the service refuses calls without the thoughts that led to them."""
    files(project, 6)
    with ThinkingServer(reads(2), *(reads(1, at) for at in range(2, 6))) as server:
        model = Anthropic("claude-sonnet-4-5", api_key="k", base_url=server.url)
        settings = ModelSettings(thinking=4000)
        rules = [Rule.allow("*")]
        async with (
            model,
            Agent(model, cwd=project, policy=rules, model_settings=settings) as agent,
        ):
            await agent.run("one")
            server.steps = [reads(2), reads(1)]
            await agent.run("two")
    thinking = [received.json.get("thinking") for received in server.requests]
    assert thinking == [{"type": "enabled", "budget_tokens": 4000}] * 9
    server.require_returned()
    assert server.cache.cost <= 1.15 * server.cache.least_cost


class Unsigned(ThinkingServer):
    """A compatible service, whose thoughts have no signatures."""

    def blocks(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Block]:
        super().blocks(calls)
        made = [each for each in self.answers.pop() if each["type"] != "redacted_thinking"]
        self.answers.append([{**e, "signature": ""} if "signature" in e else e for e in made])
        return self.answers[-1]


def test_thoughts_without_signatures_go_back_to_a_compatible_service(project: Path):
    files(project, 2)
    with Unsigned(reads(2)) as server:
        assert run(server, "-p", "one", model="MiniMax-M2").code == 0
    server.require_returned()


def test_thoughts_are_kept_when_a_session_is_resumed_and_no_other_model_gets_them(project: Path):
    files(project, 3)
    with ThinkingServer(reads(2), reads(1, 2)) as server:
        ran = run(server, "-p", "one")
        assert (ran.code, "warnings" in ran.json) == (0, False)
        assert run(server, "--resume", "latest", "-p", "two").code == 0
        server.require_returned()
        assert run(server, "--resume", "latest", "-p", "three", model="claude-haiku-4-5").code == 0
    assert "thinking" not in json.dumps(server.requests[-1].json["messages"])
    with ScriptedServer() as gemini:
        gemini.reply(sse(said("ok")))
        flags = ("--resume", "latest", "-p", "four", "--skip-trust", "-m", "gemini-2.5-flash")
        assert alhena(*flags, **keyed(gemini)).code == 0
    assert "S1/0" not in gemini.requests[-1].body.decode()
    assert "toolu_1_0" in gemini.requests[-1].body.decode()


class EndsThinking(ThinkingServer):
    """Its answers end with a thought, the last one at the output limit. It takes no such answers."""

    def blocks(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Block]:
        blocks = [*super().blocks(calls), thought(len(self.requests), 9)]
        return [*blocks[:-1], {**blocks[-1], "signature": ""}] if not calls else blocks

    def take(self, received: Received) -> Reply:
        answers = [each for each in received.json["messages"] if each["role"] == "assistant"]
        if any(each["content"][-1]["type"] == "thinking" for each in answers):
            said = "messages.2: The final block in an assistant message cannot be `thinking`."
            error = {"type": "invalid_request_error", "message": said}
            self.requests.append(received)
            return json_reply({"type": "error", "error": error}, 400)
        return super().take(received)


def test_a_thought_at_the_end_of_an_answer_does_not_go_back(project: Path):
    files(project, 2)
    with EndsThinking(reads(2)) as server:
        assert run(server, "-p", "one").code == 0
        assert run(server, "--resume", "latest", "-p", "two").code == 0
    assert len(server.requests) == 3
    server.require_returned()


class Refusing(CachingServer):
    """Refuses thoughts, with the service's words."""

    def __init__(self, words: str) -> None:
        super().__init__(reads(1), thinks=True)
        self.words = words

    def take(self, received: Received) -> Reply:
        messages = received.json["messages"]
        kinds = {block["type"] for each in messages for block in each["content"]}
        if "thinking" not in kinds:
            return super().take(received)
        error = {"type": "invalid_request_error", "message": self.words}
        return json_reply({"type": "error", "error": error}, 400)


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot change.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, found `tool_use`.",
        "When thinking is disabled, an `assistant` message cannot contain `thinking`.",
    ],
)
def test_thoughts_that_the_service_refuses_are_left_out(project: Path, words: str):
    files(project, 1)
    with Refusing(words) as server:
        ran = run(server, "-p", "one")
    assert ran.json["response"] == "done", ran.err


class ChatServer(ScriptedServer):
    """Chat completions of a model that thinks before each answer, in the field `named`. It reads a
    file for each prompt, and refuses what `refused` finds in the messages of its answers."""

    def __init__(
        self,
        refused: Callable[[list[dict[str, Any]]], str] = lambda _answers: "",
        named: str = "reasoning_content",
    ) -> None:
        super().__init__()
        self.refused = refused
        self.named = named
        self.taken: list[list[dict[str, Any]]] = []

    def take(self, received: Received) -> Reply:
        if received.path != "/v1/chat/completions":  # it is asked for its window
            return json_reply({}, 404)
        self.requests.append(received)
        messages = received.json["messages"]
        answers = [each for each in messages if each["role"] == "assistant"]
        if error := self.refused(answers[1:]):
            return json_reply({"error": {"message": error, "type": "invalid_request_error"}}, 400)
        self.taken.append(answers[1:])
        number = len(self.taken)
        thoughts = (delta(**{self.named: each}) for each in ("let me ", f"see {number}"))
        if messages[-1]["role"] == "tool":
            return stream(*thoughts, delta(content="do"), delta("stop", content="ne"))
        args = json.dumps({"file_path": "f0.txt"})
        call = {"id": f"c{number}", "type": "function", "index": 0}
        call["function"] = {"name": "read_file", "arguments": args}
        return stream(*thoughts, delta("tool_calls", tool_calls=[call]))


def ask(server: ChatServer, *arguments: str, model: str = "openai:deepseek-flash") -> None:
    variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    flags = ("-m", model, "--approval-mode", "yolo", "--skip-trust")
    ran = alhena(*flags, *arguments, **variables)
    assert (ran.code, ran.out, "repaired" in ran.err) == (0, "done\n", False), ran.err


def needs_all(answers: list[dict[str, Any]]) -> str:
    """As DeepSeek and Moonshot answer."""
    lacks = any(not each.get("reasoning_content") for each in answers)
    return "The `reasoning_content` in the thinking mode must be passed back." if lacks else ""


def takes_none(answers: list[dict[str, Any]]) -> str:
    named = any("reasoning_content" in each for each in answers)
    return "property 'reasoning_content' is unsupported" if named else ""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of servers at these ports."""
    monkeypatch.setattr(openai_compatible, "_LEARNED", {})


def takes_reasoning(answers: list[dict[str, Any]]) -> str:
    """As Groq answers."""
    place = "'messages.2' : for 'role:assistant' the following must be satisfied"
    return f"{place}[({takes_none(answers)})]" if takes_none(answers) else ""


def test_a_resumed_session_finds_the_field_that_a_server_takes(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    files(project, 1)
    with ChatServer(takes_reasoning, named="reasoning") as server:
        ask(server, "-p", "one")
        monkeypatch.setattr(openai_compatible, "_LEARNED", {})  # as in another process
        ask(server, "--resume", "latest", "-p", "two")
    assert (len(server.requests), len(server.taken)) == (5, 4)
    thoughts = [each.get("reasoning") for each in server.taken[-1]]
    assert thoughts == ["let me see 1", "let me see 2", "let me see 3"]


def test_a_server_whose_words_seem_to_miss_thoughts_and_that_takes_none_gets_none(project: Path):
    def refuse(answers: list[dict[str, Any]]) -> str:
        words = "Each message must be valid: property 'reasoning_content' or 'reasoning' is extra."
        return (
            words
            if any(each.keys() & {"reasoning_content", "reasoning"} for each in answers)
            else ""
        )

    files(project, 1)
    with ChatServer(refuse) as server:
        ask(server, "-p", "one")
        ask(server, "--resume", "latest", "-p", "two")
    assert len(server.taken) == 4


class Mistral(ChatServer):
    """Lists the faults of a request in place of a message."""

    def take(self, received: Received) -> Reply:
        reply = super().take(received)
        if reply.status != 400:
            return reply
        place = ["body", "messages", 2, "assistant", "reasoning_content"]
        fault = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
        message = {"detail": [{**fault, "input": "hm"}]}
        return json_reply({"object": "error", "message": message, "type": "invalid"}, 422)


def test_thoughts_that_a_list_of_faults_refuses_are_left_out(project: Path):
    files(project, 1)
    with Mistral(
        lambda answers: takes_none(answers) or "reasoning" * ("reasoning" in str(answers))
    ) as server:
        ask(server, "-p", "one")
    assert len(server.taken) == 2


def test_a_refusal_with_the_name_of_a_model_is_not_about_thoughts(project: Path):
    files(project, 1)
    said = "phi-4-reasoning does not support so many tools"
    with ChatServer(lambda answers: said if answers else "") as server:
        variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
        ran = alhena("-m", "openai:phi-4-reasoning", "--skip-trust", "-p", "one", **variables)
    assert (ran.code, len(server.requests)) == (1, 2)


def test_a_refusal_for_another_reason_does_not_end_the_return_of_thoughts(project: Path):
    """The server refuses everything for a while, with a word that is also used of thoughts."""
    faults = [""] * 2 + ["reasoning with tools is not supported today"] * 3

    def refuse(answers: list[dict[str, Any]]) -> str:
        return (faults.pop(0) if faults else "") or needs_all(answers)

    files(project, 1)
    with ChatServer(refuse) as server:
        ask(server, "-p", "one")
        variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
        flags = ("-m", "openai:deepseek-flash", "--skip-trust", "--resume", "latest")
        assert alhena(*flags, "-p", "two", **variables).code == 1
        faults.clear()
        ask(server, "--resume", "latest", "-p", "three")
    assert server.taken[-1][-1]["reasoning_content"]


@pytest.mark.parametrize("named", ["reasoning_content", "reasoning"])
def test_thoughts_of_chat_completions_go_back_in_their_field(project: Path, named: str):
    files(project, 1)
    with ChatServer(named=named) as server:
        ask(server, "-p", "one")
        ask(server, "--resume", "latest", "-p", "two")
    assert len(server.requests) == 4
    thoughts = [each.get(named) for each in server.taken[-1]]
    assert thoughts == ["let me see 1", "let me see 2", "let me see 3"]
    assert [each["content"] for each in server.taken[-1]] == [None, "done", None]


def test_a_server_that_needs_all_thoughts_gets_them_also_where_there_are_none(project: Path):
    """The server refuses once what another model answered."""
    files(project, 1)
    with ChatServer(needs_all) as server:
        ask(server, "-p", "one")
        assert len(server.requests) == len(server.taken) == 2
        ask(server, "--resume", "latest", "-p", "two", model="openai:deepseek-pro")
    assert (len(server.requests), len(server.taken)) == (5, 4)
    thoughts = [each["reasoning_content"] for each in server.taken[-1]]
    assert thoughts == [" ", " ", "let me see 3"]


def test_a_server_that_takes_no_thoughts_gets_them_once(project: Path):
    files(project, 1)
    with ChatServer(takes_none) as server:
        ask(server, "-p", "one")
        ask(server, "--resume", "latest", "-p", "two")
    assert (len(server.requests), len(server.taken)) == (5, 4)


def test_thoughts_of_an_answer_without_tools_are_left_out(project: Path):
    """Services ignore them."""
    with ThinkingServer() as server:
        assert run(server, "-p", "one").code == 0
        assert run(server, "--resume", "latest", "-p", "two").code == 0
    assert "hm" not in json.dumps(server.requests[-1].json["messages"])


def test_a_server_s_own_text_that_looks_like_thoughts_is_none():
    nested = "thoughts:[" + "[" * 200_000
    assert return_thoughts([Part(text="x", thought_signature=nested)])[0].text == "x"
    nested = 'thoughts:[{"text":"a","other":' + "[" * 200_000
    assert return_thoughts([Part(text="x", thought_signature=nested)])[0].text == "x"


@pytest.mark.requirement("CHAT-02")
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("thought"), st.text("ab\n", min_size=1, max_size=3)),
            st.tuples(st.just("hidden"), st.just("")),
            st.tuples(st.just("text"), st.text("xy", min_size=1, max_size=3)),
            st.tuples(st.just("call"), st.text("f", min_size=1, max_size=1)),
        ),
        max_size=12,
    )
)
def test_an_answer_returns_as_it_came(kinds: list[tuple[str, str]]):
    """Texts that nothing stands between are one. Thoughts alone are no answer."""
    came: list[Part] = []
    for at, (kind, text) in enumerate(kinds):
        if kind == "thought":
            came += [Part(text=each, thought=True) for each in text]
            came.append(Part(text="", thought=True, thought_signature=f"foreign:{at}"))
        elif kind == "hidden":
            came.append(Part(text="", thought=True, thought_signature=mark_redacted(f"{at}")))
        elif kind == "text":
            came.append(Part(text=text))
        else:
            came.append(Part(function_call=FunctionCall(id=str(at), name="f", args={})))
    content = model_content(came, sign_calls=False, carry=True) or Content(role=MODEL, parts=())
    assert not any(part.thought for part in content.parts)
    answered = any(kind in ("text", "call") for kind, _ in kinds)
    wanted: list[tuple[str, str]] = []
    for at, (kind, text) in enumerate(kinds):
        if kind in ("thought", "hidden"):
            wanted += [("thought", f"{text}/{at}")] if answered else []
        elif kind == "text" and wanted and wanted[-1][0] == "text":
            wanted[-1] = ("text", wanted[-1][1] + text)
        else:
            wanted.append((kind, text if kind == "text" else str(at)))
    found = [
        ("thought", f"{part.text}/{(part.thought_signature or '').partition(':')[2]}")
        if part.thought
        else ("text", part.text or "")
        if part.function_call is None
        else ("call", part.function_call.id or "")
        for part in return_thoughts(content.parts)
    ]
    assert found == wanted
