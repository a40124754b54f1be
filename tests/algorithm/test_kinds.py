"""Kinds: each has a component that takes just its cells."""

import inspect

import pytest

from rlvr_cli.algorithm.choices import Algorithm
from rlvr_cli.algorithm.filters import FILTERS
from rlvr_cli.algorithm.group_advantage import GROUP_ADVANTAGES
from rlvr_cli.algorithm.kl import CONTROLS, ESTIMATORS, KL
from rlvr_cli.algorithm.objective import AGGREGATIONS, IMPORTANCE_CORRECTIONS, SURROGATES
from rlvr_cli.algorithm.token_advantage import TOKEN_ADVANTAGES
from rlvr_cli.core.settings import CUSTOM, kinds, settings_of


@pytest.mark.parametrize(
    ("section", "field", "table"),
    [
        (Algorithm, "advantage", GROUP_ADVANTAGES | TOKEN_ADVANTAGES),
        (Algorithm, "surrogate", SURROGATES),
        (Algorithm, "importance_correction", {**IMPORTANCE_CORRECTIONS, "auto": None}),
        (Algorithm, "kl", ESTIMATORS),
        (Algorithm, "filter", FILTERS),
        (KL, "control", CONTROLS),
    ],
)
def test_every_kind_has_a_component(section, field, table):
    assert set(kinds(section.model_fields[field].annotation)) - {CUSTOM} == set(table)


def test_the_words_of_aggregation_are_the_registered_functions():
    (aggregation,) = [s for s in settings_of(Algorithm) if s.name == "aggregation"]
    assert set(aggregation.values) == {function.__name__ for function in AGGREGATIONS.values()}


@pytest.mark.parametrize(
    ("field", "table"),
    [
        ("advantage", GROUP_ADVANTAGES | TOKEN_ADVANTAGES),
        ("surrogate", SURROGATES),
        ("importance_correction", IMPORTANCE_CORRECTIONS),
    ],
)
def test_a_component_takes_just_the_cells_of_its_kind(field, table):
    choices = kinds(Algorithm.model_fields[field].annotation)
    choices.pop("auto", None)  # decided before the run
    choices.pop(CUSTOM, None)  # tried when it is loaded
    for kind, choice in choices.items():
        given = 1 if field == "surrogate" else 2  # else with the batch or the mask
        taken = list(inspect.signature(table[kind]).parameters)[given:]
        assert taken == list(choice.model_construct(kind=kind).fields), kind
