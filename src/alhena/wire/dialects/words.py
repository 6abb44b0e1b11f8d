"""Parts that another dialect has no block for, in words."""

from alhena.wire.content import Part
from alhena.wire.response import GenerateContentResponse


def words_for(part: Part) -> str:
    """The text of a part; of one that holds something else, words that say what. A call or a
    response has none."""
    if part.text is not None:
        return part.text
    if part.executable_code is not None:
        code = part.executable_code
        return f"\n```{code.language.lower()}\n{code.code}\n```\n"
    if part.code_execution_result is not None:
        result = part.code_execution_result
        return f"\n```\n{result.output or result.outcome}\n```\n"
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type}, which cannot be shown here]"
    if part.file_data is not None:
        return f"[{part.file_data.mime_type or 'file'}: {part.file_data.file_uri}]"
    return ""


def sole_text(chunk: GenerateContentResponse) -> str:
    """The text of a chunk that brings nothing else but token counts; "" for any other. Nearly all
    chunks in the middle of an answer are like that."""
    if not chunk.candidates or chunk.prompt_feedback is not None:
        return ""
    candidate = chunk.candidates[0]
    if candidate.finish_reason or candidate.content is None or len(candidate.content.parts) != 1:
        return ""
    part = candidate.content.parts[0]
    if part.thought or part.thought_signature or part.function_call is not None:
        return ""
    return part.text or ""
