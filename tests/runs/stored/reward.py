"""A reward that differs between the responses of a random model: its lower-case letters."""


def lower(problem, response, **fields):
    """Return the share of lower-case letters."""
    return sum(letter.islower() for letter in response) / max(1, len(response))
