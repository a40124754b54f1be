"""Whether a sentence speaks of the task or of the work at it, and states no answer."""

from verifiers.extraction.context.abroad import TO_DO
from verifiers.grammar.tables import gated, pattern

SPEAKS_OF = gated("plain", "speaks_of")
OPENS = gated("plain", "opens")
CROSSED = pattern("plain", "crossed")
OWN_STEP = gated("plain", "own_step", flags=0)
NEAR = 2_000


def speaks_of_it(sentence: str) -> bool:
    """Return whether a sentence speaks of the task, opens a step or tells what the writer does."""
    sentence = sentence[:NEAR]
    return (
        SPEAKS_OF.found(sentence)
        or CROSSED.search(sentence) is not None
        or TO_DO.found(sentence)
        or OPENS.found(sentence)
        or OWN_STEP.found(sentence)
    )
