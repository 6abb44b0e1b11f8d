"""Model services and stand-ins, each a ContentGenerator, and the selection of one."""
