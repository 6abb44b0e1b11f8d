"""How much the gateway takes and how long it waits."""

import msgspec

MB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds.

    `concurrent` requests are answered at a time, and the bodies of all of them together hold
    `bodies_bytes` at most. What the values of one come to in memory, beside its texts, is
    `values_bytes` at most, and counts among those of all. The head of a request has to arrive
    within `head_s`, its body within `body_s` and each next piece of that within `body_idle_s`; its
    answer has to be written within `total_s`. A client that takes nothing for `stall_s` is given
    up. A stream says that it lives after `ping_s` of silence. When the gateway stops, answers under
    way get `stop_s`.
    """

    body_bytes: int = 32 * MB
    bodies_bytes: int = 256 * MB
    values_bytes: int = 32 * MB
    head_bytes: int = 64 * 1024
    concurrent: int = 256
    head_s: float = 10.0
    body_idle_s: float = 30.0
    body_s: float = 300.0
    total_s: float = 3600.0
    stall_s: float = 120.0
    ping_s: float = 15.0
    keep_alive_s: float = 75.0
    stop_s: float = 10.0
