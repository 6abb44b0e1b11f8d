"""What is left of an account's quota (retrieveUserQuota)."""

from functools import partial

import msgspec

from alhena.models.code_assist.account import decode_answer
from alhena.models.code_assist.service import CodeAssistService
from alhena.wire.encoded import encode_value


class QuotaBucket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is left for one model: a fraction from 0 to 1, an amount where there is one, and when it
    is full again (RFC 3339)."""

    model_id: str | None = None
    token_type: str | None = None
    remaining_fraction: float | None = None
    remaining_amount: str | None = None
    reset_time: str | None = None


class _Quota(msgspec.Struct, frozen=True, kw_only=True):
    buckets: tuple[QuotaBucket, ...] | None = None


async def user_quota(service: CodeAssistService, project: str) -> tuple[QuotaBucket, ...]:
    """The quota of the account with this project. Raises ModelError or DecodeError."""
    body = encode_value({"project": project} if project else {})
    answer = await service.call("retrieveUserQuota", "", body, partial(decode_answer, kind=_Quota))
    return answer.buckets or ()
