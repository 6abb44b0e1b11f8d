"""Other ways to write a conversation with a model, and how Gemini's is made of them and they of it.

Each dialect has a module with the same functions: `read_request` and `write_request`,
`read_response` and `write_response`, `EventReader` and `EventWriter`. They are pure and total: what
cannot be read is a `DialectError` that names the place.
"""
