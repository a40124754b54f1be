"""Rule-based verification of mathematical answers: right, bounded, and usable alone."""

from verifiers.api import Verifier, verify
from verifiers.extraction.extract import boxed_answer
from verifiers.extraction.formats import check_format
from verifiers.judges import JUDGES, OURS
from verifiers.peer import open_judge
from verifiers.types import Attempt, Format, Verdict, Verification

__all__ = [
    "JUDGES",
    "OURS",
    "Attempt",
    "Format",
    "Verdict",
    "Verification",
    "Verifier",
    "boxed_answer",
    "check_format",
    "open_judge",
    "verify",
]
