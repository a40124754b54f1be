"""Numbers in sentences."""


def plural(count: int, noun: str) -> str:
    """`1 problem`, `2 problems`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
