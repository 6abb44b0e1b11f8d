"""The tokens of each request that Anthropic's service reads from its cache, as documented."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LOOKBACK = 20
MARKS = 4


def tokens(block: Any) -> int:
    return len(json.dumps(block)) // 4


@dataclass
class PromptCache:
    """Reads and writes of each request: `counts` has (fresh, written, read) tokens. A mark finds
    the longest kept prefix that ends at most 20 blocks before it."""

    least: int = 1024
    kept: set[str] = field(default_factory=set)
    counts: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self, body: dict[str, Any]) -> tuple[int, int, int]:
        blocks = list(blocks_of(body))
        marks = [at for at, (_, control) in enumerate(blocks) if control]
        assert len(marks) <= MARKS
        sizes, names = [0], ["", *prefixes(each for each, _ in blocks)]
        for block, _ in blocks:
            sizes.append(sizes[-1] + tokens(block))
        read = max(
            (
                sizes[end + 1]
                for mark in marks
                for end in range(max(-1, mark - LOOKBACK), mark + 1)
                if names[end + 1] in self.kept
            ),
            default=0,
        )
        last = max((sizes[mark + 1] for mark in marks), default=0)
        written = last - read if last >= self.least else 0
        self.kept |= {names[mark + 1] for mark in marks if sizes[mark + 1] >= self.least}
        self.counts.append((sizes[-1] - written - read, written, read))
        return self.counts[-1]

    def usage(self, body: dict[str, Any]) -> dict[str, Any]:
        fresh, written, read = self.take(body)
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": 10,
        }

    @property
    def cost(self) -> float:
        """All requests, in tokens at the price of fresh ones."""
        return sum(fresh + 1.25 * written + 0.1 * read for fresh, written, read in self.counts)

    @property
    def least_cost(self) -> float:
        """The same when each request reads all that the previous one ended with."""
        sizes = [sum(each) for each in self.counts]
        new = [now - before for before, now in zip([0, *sizes], sizes, strict=False)]
        return sum(1.25 * more + 0.1 * (size - more) for more, size in zip(new, sizes, strict=True))


def blocks_of(body: dict[str, Any]) -> Iterable[tuple[Any, Any]]:
    """The blocks in the order of the cache, each without its mark and with it. Messages are kept
    for one form of thinking only."""
    for key in ("tools", "system"):
        for block in body.get(key) or []:
            yield split(block, key)
    for message in body["messages"]:
        for block in message["content"]:
            assert not (block["type"] in {"thinking", "redacted_thinking"} and split(block, "")[1])
            yield split(block, f"{message['role']} {body.get('thinking')}")


def split(block: dict[str, Any], place: str) -> tuple[Any, Any]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return [place, bare], block.get("cache_control")


def prefixes(blocks: Iterable[Any]) -> Iterable[str]:
    text = ""
    for block in blocks:
        text += json.dumps(block)
        yield text
