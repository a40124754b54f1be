"""Clauses such as "for all real x" or "where c is a constant" around an answer."""

import re

MAX_LENGTH = 400
CLAUSE = re.compile(r"\b(?:for|where|with)\b")
LEADING = re.compile(
    r"(?:\\text\s*\{)?\s*(?:all|any)((?: [a-z]+){0,3})\s*\}?\s*"
    r"(?=[a-z]\s*(?:[<>=≥≤≠]|\\(?:[gl]eq?|[gl]eqslant|neq?|in)(?![a-z])))",
    re.IGNORECASE,
)
TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+|\S")
BEFORE = re.compile(r"(?:[\s,;.($~]|\\[,;:! ]|\\(?:quad|qquad)\b|\\(?:text|textrm|mathrm)\s*\{)+$")
DOMAINS = {"real": "R", "reals": "R", "integer": "Z", "integers": "Z", "natural": "N"}
DOMAINS |= {"rational": "Q", "complex": "C", "positive": "+", "negative": "-", "nonzero": "0"}
DOMAINS |= {"even": "even", "odd": "odd", "R": "R", "Z": "Z", "N": "N", "Q": "Q", "C": "C"}
FREE = {"for", "all", "any", "every", "each", "some", "where", "with", "is", "are", "a", "an"}
FREE |= {"number", "numbers", "constant", "constants", "arbitrary", "value", "values", "of"}
FREE |= {"and", "in", "fixed", "\\in", "\\text", "\\textrm", "\\mathrm", "\\quad"}
FREE |= {*"{}(),.$\\~;"}
MATHEMATICAL_SET = re.compile(r"\\mathbb\s*\{?\s*([RZNQC])")


def without_clauses(gold: str, answer: str) -> tuple[str, str]:
    """Return both answers without a clause that only says what a variable may be, unless the
    clauses contradict each other."""
    left, right = _split(gold), _split(answer)
    if left[1] and right[1] and left[1] != right[1]:
        return gold, answer
    return left[0], right[0]


def without_clause(text: str) -> str:
    return _split(text)[0]


def _split(text: str) -> tuple[str, frozenset[str]]:
    """Return an answer, and the domains its clause names; the whole text where the clause says
    more."""
    if len(text) > MAX_LENGTH:
        return text, frozenset()
    if match := CLAUSE.search(text):
        head, clause = BEFORE.sub("", text[: match.start()]), text[match.start() :]
    elif match := LEADING.match(text):
        head, clause = text[match.end() :], match[1]
    else:
        return text, frozenset()
    tokens = TOKEN.findall(MATHEMATICAL_SET.sub(r" \\in \1 ", clause))
    names = {token for token in tokens if len(token) == 1 and token.isalpha()}
    domains = frozenset(DOMAINS[token] for token in tokens if token in DOMAINS)
    known = names | FREE | DOMAINS.keys()
    balanced = all(head.count(opening) == head.count(closing) for opening, closing in ("{}", "()"))
    if not head or not balanced or any(token not in known for token in tokens):
        return text, frozenset()
    return head, domains
