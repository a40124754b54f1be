"""Functions with their arguments: sines, logarithms, roots, fractions, sums."""

from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import read_literal
from verifiers.grammar.parser import Parser
from verifiers.grammar.readers.groups import between_bars
from verifiers.grammar.readers.names import subscripted
from verifiers.grammar.tree import Big, Call, Div, Mul, Neg, Node, Opaque, ParseError, Pow, Sym, num
from verifiers.grammar.vocabulary import FUNCTIONS, GREEK, INVERSES, LISTED_FUNCTIONS


def read_function(parser: Parser, token: Token) -> Node:
    """Return a function and its argument, with a power or a base between the two."""
    if token.text == "sqrt":
        return _root(parser)
    function = FUNCTIONS[token.text]
    base: Node | None = None
    exponent: Node | None = None
    if function == "log" and parser.accept("sign", "_"):
        base = _log_base(parser)
    if parser.accept("sign", "^"):
        exponent = parser.argument()
        if exponent in (num(-1), Neg((num(1),))) and function in INVERSES:
            function, exponent = INVERSES[function], None
    if function == "log" and base is None and parser.accept("sign", "_"):
        base = _log_base(parser)
    argument = _function_argument(parser)
    args = (argument,) if base is None else (argument, base)
    unknown_part = function in ("re", "im") and argument.symbols()
    node = (Opaque if unknown_part else Call)(function, args)
    return node if exponent is None else Pow((node, exponent))


def _function_argument(parser: Parser) -> Node:
    """Return a bracket, or the factors up to the next sign: sin 2x cos x is (sin 2x)(cos x)."""
    if parser.at("sign", "{"):
        return parser.power()
    if parser.at("sign", "(", "["):
        inside = parser.atom()
        squared = parser.at("sign", "^") and not _at_degrees(parser)
        return inside if squared else parser.postfixed(inside)  # sin(x)^2 is (sin x)^2
    factors = [parser.power()]
    while _continues_argument(parser):
        factors.append(parser.power())
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def _log_base(parser: Parser) -> Node:
    """Read log_10 5 with the base 10, log_25 as LaTeX shows it: the log of 5 to the base 2."""
    token, following = parser.peek(), parser.peek(1)
    opens = following.text in ("(", "{", "[")
    argument_follows = opens or following.kind in ("number", "word", "command")
    if token.kind == "number" and token.text.isdigit() and argument_follows:
        return read_literal(parser.take().text)
    return parser.argument()


def _at_degrees(parser: Parser) -> bool:
    braced = parser.peek(1).text == "{"
    return parser.peek(1 + braced).text in ("circ", "degree")


def _continues_argument(parser: Parser) -> bool:
    token = parser.peek()
    if token.text_mode or token.text in FUNCTIONS:
        return False
    if token.kind == "word":
        return len(token.text) <= 3 and token.text not in ("and", "or", "U")
    return token.kind == "command" and token.text in GREEK | {"pi", "sqrt", "frac"}


def _root(parser: Parser) -> Node:
    index: Node = num(2)
    if parser.accept("sign", "["):
        index = parser.closed("]")
    token = parser.peek()
    radicand = parser.atom() if token.kind == "number" else parser.argument()
    return Call("root", (radicand, index))


def read_listed(parser: Parser, token: Token) -> Node:
    """Read max(1, 2): a function of a list of arguments."""
    if parser.peek().text not in ("(", "{"):
        return read_operator(parser, token)
    parser.take()
    inside = parser.answer()
    if parser.take().text not in (")", "}"):
        raise ParseError("argument list not closed")
    args = inside.args if inside.kind == "list" else (inside,)
    return Call(LISTED_FUNCTIONS[token.text], args)


def read_operator(parser: Parser, token: Token) -> Node:
    """Read det A, max f: the name of a quantity that is never evaluated."""
    under = (parser.argument(),) if parser.accept("sign", "_") else ()
    return Opaque(token.text, (_function_argument(parser), *under))


def read_norm(parser: Parser, token: Token) -> Node:
    inside = between_bars(parser, "command", token.text.replace("l", "r"))
    return Opaque("norm", (inside,))


def read_big(parser: Parser, token: Token) -> Node:
    """Return a sum, product, integral or limit: kept as it stands, never evaluated."""
    limits = []
    while parser.at("sign", "_") or parser.at("sign", "^"):
        parser.take()
        parser.in_limits = True
        limits.append(parser.argument())
        parser.in_limits = False
    return Big(token.text, (*limits, parser.sum()))


def read_fraction(parser: Parser, token: Token) -> Node:
    return Div((parser.argument(), parser.argument()))


def read_binomial(parser: Parser, token: Token) -> Node:
    return Call("binom", (parser.argument(), parser.argument()))


def read_rounded(parser: Parser, token: Token) -> Node:
    """Return a floor or a ceiling: \\lfloor x \\rfloor."""
    name = token.text[1:]
    inside = parser.sum()
    parser.expect("command", f"r{name}")
    return Call(name, (inside,))


def read_conjugate(parser: Parser, token: Token) -> Node:
    """Return a bar over letters is a conjugate, over digits and letters a number with such
    digits."""
    inside = parser.argument()
    if inside.kind == "mul":
        digits = [str(part.value) for part in inside.args if part.kind in ("sym", "num")]
        number = len(digits) == len(inside.args) and not "".join(digits).isupper()
        return Sym(" ".join(["digits", *digits])) if number else inside
    if inside.kind == "sym" and parser.at("sign", "_"):
        inside = subscripted(parser, str(inside.value))
    return (Opaque if inside.symbols() else Call)("conj", (inside,))


def read_dotted(parser: Parser, token: Token) -> Node:
    """Return a derivative by the time is a name of its own, whether x or x_0 carries the dot."""
    inside = parser.argument()
    if inside.kind != "sym":
        raise ParseError("dot over an expression")
    name, mark, index = str(inside.value).partition("_")
    if not mark:
        return subscripted(parser, f"{name} {token.text}")
    return Sym(f"{name} {token.text}_{index}")
