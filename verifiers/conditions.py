"""Conditions such as `k ∈ Z` beside an answer: dropped, and their parameter's name aligned."""

from verifiers.expr import Node, replace_symbol

DISCRETE = ("Z", "N", "N^*", "N_+", "Z^+", "Z_+")


def align_parameters(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Both answers without their conditions; a parameter keeps the name it has in the gold."""
    gold, wanted = _without_conditions(gold)
    answer, present = _without_conditions(answer)
    if len(wanted) == len(present) == 1 and wanted != present:
        answer = replace_symbol(answer, present.pop(), wanted.pop())
    return gold, answer


def _is_condition(node: Node) -> bool:
    return (
        node.kind == "rel"
        and node.value == ("in",)
        and node.args[0].kind == "sym"
        and node.args[1].kind == "setname"
        and node.args[1].value in DISCRETE
    )


def _without_conditions(node: Node) -> tuple[Node, set[str]]:
    names: set[str] = set()
    args = []
    for arg in node.args:
        if node.kind in ("list", "mul") and len(node.args) > 1 and _is_condition(arg):
            names.add(str(arg.args[0].value))
        elif arg.args:
            arg, inner = _without_conditions(arg)
            names |= inner
            args.append(arg)
        else:
            args.append(arg)
    if len(args) == 1 and len(node.args) > 1:
        return args[0], names
    return (node if not args else node.with_args(tuple(args))), names
