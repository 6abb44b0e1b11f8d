"""Skills: instructions in SKILL.md files that a model can ask for."""
