"""Problem input: sources, problems, prompts, and the built-in chains."""
