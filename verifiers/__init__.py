"""Rule-based verification of mathematical answers: right, bounded, and usable alone."""

from verifiers.api import Verifier, verify
from verifiers.formats import check_format
from verifiers.types import Attempt, Verdict, Verification

__all__ = ["Attempt", "Verdict", "Verification", "Verifier", "check_format", "verify"]
