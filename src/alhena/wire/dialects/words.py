"""Parts that another dialect has no block for, in words."""

from alhena.wire.content import Part


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
