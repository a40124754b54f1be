"""Name the fields that hold problems, gold answers and responses in the rows of many programs."""

ANSWERS = (
    "answer",
    "solution",
    "ground_truth",
    "target",
    "gold",
    "final_answer",
    "output",
    "expected_answer",
    "gt",
    "gold_answer",
    "reference_answer",
    "expected",
    "reward_model.ground_truth",
    "verification_info.ground_truth",
)
"""The paths at which a gold answer is looked for, in this order."""
DERIVATIONS = ("solution", "output")
"""Those that may hold a derivation, whose last box is the gold answer."""
RESPONSES = (
    "response",
    "responses",
    "completion",
    "completions",
    "generation",
    "generations",
    "prediction",
    "predictions",
    "model_output",
)
"""The paths at which a response is looked for. A row has only one of them."""
OTHER_RESPONSES = (
    "output",
    "code",
    "gen",
    "raw_response",
    "generated_responses",
)
"""The paths at which a response is looked for if it has none of its names. The first one counts."""
PROBLEMS = ("problem", "question", "prompt")
"""The fields in which `rlvr-verify` looks for the text of a problem. It may be left out."""
