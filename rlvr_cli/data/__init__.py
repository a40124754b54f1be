"""Problems in: sources, problems, prompts, and the built-in arithmetic."""
