"""Read the text of an answer as a tree."""
