"""When two answers are equal."""
