"""Read LaTeX commands, and functions with their arguments: sines, logarithms, roots, fractions."""

from collections.abc import Callable, Mapping

from verifiers.grammar import vocabulary
from verifiers.grammar.lexer import Token
from verifiers.grammar.literals import read_literal
from verifiers.grammar.parser import DEGREES, Parser, quotient
from verifiers.grammar.readers.groups import between_bars, read_braced_set
from verifiers.grammar.readers.names import applied, subscripted
from verifiers.grammar.tree import Node, ParseError, call, neg, num, product_of, sym

SINGLE_COMMANDS = {
    "pi": Node("const", (), "pi"), "infty": Node("const", (), "inf"),
    "imath": Node("const", (), "i"),
    "emptyset": Node("empty"), "varnothing": Node("empty"),
    "ldots": Node("dots"), "dots": Node("dots"), "cdots": Node("dots"),
}  # fmt: skip


def read_command(parser: Parser, token: Token) -> Node:
    """Read a LaTeX command with its arguments."""
    name = token.text
    if name in SINGLE_COMMANDS:
        return SINGLE_COMMANDS[name]
    if name in COMMANDS:
        return COMMANDS[name](parser, token)
    if name.endswith(" arrow"):
        return sym(name)
    raise ParseError(f"unknown command {name!r}")


def read_function(parser: Parser, token: Token) -> Node:
    """Read a function and its argument, with a power or a base between the two."""
    if token.text == "sqrt":
        index = parser.closed("]") if parser.accept("sign", "[") else num(2)
        radicand = read_literal(parser.take().text) if parser.at("number") else None
        return call("root", radicand or parser.argument(), index)
    function = vocabulary.FUNCTIONS[token.text]
    base: Node | None = None
    exponent: Node | None = None
    if function == "log" and parser.accept("sign", "_"):
        base = _log_base(parser)
    if parser.accept("sign", "^"):
        exponent = parser.argument()
        if exponent in (num(-1), neg(num(1))) and function in vocabulary.INVERSES:
            function, exponent = vocabulary.INVERSES[function], None
    if function == "log" and base is None and parser.accept("sign", "_"):
        base = _log_base(parser)
    argument = _argument(parser)
    args = (argument,) if base is None else (argument, base)
    is_unknown = function in ("re", "im") and argument.symbols()  # the real part of z
    node = Node("opaque" if is_unknown else "call", args, function)
    return node if exponent is None else Node("pow", (node, exponent))


def _argument(parser: Parser) -> Node:
    """Read a bracket, or the factors up to the next sign: sin 2x cos x is (sin 2x)(cos x)."""
    if parser.at("sign", "{"):
        return parser.power()
    if parser.at("sign", "(", "["):
        content = parser.atom()
        above = parser.peek(2 if parser.peek(1).text == "{" else 1)
        has_power = parser.at("sign", "^") and above.text not in DEGREES
        return content if has_power else parser.postfixed(content)  # sin(x)^2 is (sin x)^2
    factors = [parser.power()]
    while _continues_argument(parser.peek()):
        factors.append(parser.power())
    return product_of(factors)


def _continues_argument(token: Token) -> bool:
    if token.text_mode or token.text in vocabulary.FUNCTIONS:
        return False
    if token.kind == "word":
        return len(token.text) <= 3 and token.text not in ("and", "or", "U")
    return token.kind == "command" and token.text in vocabulary.GREEK | {"pi", "sqrt", "frac"}


def _log_base(parser: Parser) -> Node:
    """Read the base of log_10 5 as 10, and that of log_25 as 2, as LaTeX shows it."""
    token, following = parser.peek(), parser.peek(1)
    opens = following.text in ("(", "{", "[")
    has_argument = opens or following.kind in ("number", "word", "command")
    if token.kind == "number" and token.text.isdigit() and has_argument:
        return read_literal(parser.take().text)
    return parser.argument()


def _function_of_list(parser: Parser, token: Token) -> Node:
    """Read max(1, 2), a function of several arguments."""
    if parser.peek().text not in ("(", "{"):
        return _operator(parser, token)
    parser.take()
    items = parser.items()
    if parser.take().text not in (")", "}"):
        raise ParseError("argument list not closed")
    return call(token.text, *items)


def _in_code(parser: Parser, token: Token) -> Node:
    """Read a function under its name in code: abs(x - 2), binomial(6, 2), Fraction(5, 6)."""
    kind, function, count, *further = vocabulary.CODE_FUNCTIONS[token.text]
    parser.take()
    items = parser.items()
    parser.expect("sign", ")")
    if len(items) != count:
        raise ParseError(f"arguments of {token.text}")
    if kind == "same":
        return items[0]
    return Node(kind, (*items, *map(num, further)), function or None)


def _operator(parser: Parser, token: Token) -> Node:
    """Read det A, max f: the name of a quantity that is never evaluated."""
    under = (parser.argument(),) if parser.accept("sign", "_") else ()
    return Node("opaque", (_argument(parser), *under), token.text)


def _big(parser: Parser, token: Token) -> Node:
    """Read a sum, product, integral or limit, which is never evaluated."""
    limits = []
    while parser.accept("sign", "_", "^"):
        parser.in_limits = True
        limits.append(parser.argument())
        parser.in_limits = False
    return Node("big", (*limits, parser.sum()), token.text)


def _rounded(parser: Parser, token: Token) -> Node:
    """Read a floor or a ceiling: \\lfloor x \\rfloor."""
    content = parser.sum()
    parser.expect("command", token.text.replace("l", "r", 1))
    return call(token.text[1:], content)


def _overlined(parser: Parser, token: Token) -> Node:
    """Read a bar: over AB a segment, over abc a number with these digits, else a conjugate."""
    content = parser.argument()
    if content.kind == "mul" and all(part.kind in ("sym", "num") for part in content.args):
        name = " ".join(str(part.value) for part in content.args)
        return content if name.isupper() else sym(f"digits {name}")
    return Node("opaque" if content.symbols() else "call", (content,), "conj")


def _angled(parser: Parser, token: Token) -> Node:
    items = parser.items()
    parser.expect("command", "rangle")
    return Node("tuple", items, "<>")


def _greek(parser: Parser, token: Token) -> Node:
    return applied(parser, subscripted(parser, "\\" + token.text.removeprefix("var")))


COMMANDS: Mapping[str, Callable[[Parser, Token], Node]] = {
    "frac": lambda parser, token: quotient(parser.argument(), parser.argument()),
    "binom": lambda parser, token: call("binom", parser.argument(), parser.argument()),
    "lvert": lambda parser, token: call("abs", between_bars(parser, "command", "rvert")),
    "{": read_braced_set, "lbrace": read_braced_set, "langle": _angled,
    "lfloor": _rounded, "lceil": _rounded, "overline": _overlined,
    "angle": lambda parser, token: parser.atom(),  # \angle ABC: the letters are the name
    "triangle": lambda parser, token: parser.atom(),
    **dict.fromkeys(vocabulary.BIG, _big), **dict.fromkeys(vocabulary.OPERATORS, _operator),
    **dict.fromkeys(vocabulary.GREEK, _greek),
    **dict.fromkeys(vocabulary.CODE_FUNCTIONS, _in_code),
    **dict.fromkeys(vocabulary.LISTED_FUNCTIONS, _function_of_list),
    **dict.fromkeys((*vocabulary.FUNCTIONS, "sqrt"), read_function),
}  # fmt: skip
