"""Other dialects of model conversations, converted to and from Gemini's types.

Each dialect has a module with the same functions: `read_request` and `write_request`,
`read_response` and `write_response`, `EventReader` and `EventWriter`; OpenAI has two, `openai` for
chat completions and `responses`. They are pure and total:
unreadable input raises a `DialectError` that names the position.
"""
