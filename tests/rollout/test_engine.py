"""The contract of a rollout engine: every test runs on each of them, vLLM where it is installed."""

from collections.abc import Iterator
from contextlib import ExitStack
from importlib import util

import pytest
import torch
from fake_vllm import fake_vllm
from families import VOCAB
from small_samples import Row, samples_of
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Completion, Problem, Prompt, SamplingParams, Unfinished
from rlvr_cli.model.packing import ATTENTION
from rlvr_cli.model.policy import Policy
from rlvr_cli.ranks.group import is_joined
from rlvr_cli.rollout.engines.base import Engine
from rlvr_cli.rollout.engines.hf_engine import TransformersEngine
from rlvr_cli.rollout.engines.pushed import weights_directory
from rlvr_cli.rollout.engines.server_engine import ServerEngine
from rlvr_cli.training.batch import micro_batches

STOP = 1
CONTEXT = 128
PROMPTS = [[5, 6, 7, 8], [9], [10, 11], [12, 13, 14, 15, 16, 17]]
SEEDS = [100, 200, 300, 400]
KV_MB = 64
NEEDS_VLLM = pytest.mark.skipif(util.find_spec("vllm") is None, reason="vLLM is not installed here")


def make_model(tied: bool = True, seed: int = 0) -> PreTrainedModel:
    """A model small enough for any test, with heads of a size that vLLM has."""
    config = Qwen2Config(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=STOP,
        pad_token_id=0,
        tie_word_embeddings=tied,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model.eval()


class Engines:
    """Engines of one kind; vLLM is started anew only where the shape of the model changes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.shape = None
        self.running = None
        self.stack = ExitStack()

    def __call__(
        self, model: PreTrainedModel, vocab_size: int = VOCAB, stop_ids: tuple[int, ...] = (STOP,)
    ) -> Engine:
        if self.kind == "transformers":
            return TransformersEngine(model, vocab_size, stop_ids, KV_MB)
        if self.kind == "servers":
            return self._on_servers(model, vocab_size, stop_ids)
        from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

        shape = (model.config.tie_word_embeddings, vocab_size)
        if self.shape != shape:
            self.close()
            self.running = VllmEngine(model, vocab_size, stop_ids, KV_MB, gpu_share=0.3)
            self.shape = shape
        self.running.stop_ids = list(stop_ids)
        self.running.sync_weights(model.named_parameters())
        return self.running

    def _on_servers(
        self, model: PreTrainedModel, vocab_size: int, stop_ids: tuple[int, ...]
    ) -> ServerEngine:
        """An engine on two servers, with the weights of the model."""
        self.close()
        self.stack = ExitStack()
        urls = []
        for _ in range(2):
            urls.append(self.stack.enter_context(fake_vllm(model.config, vocab_size)).url)
        self.running = ServerEngine(model, vocab_size, stop_ids, urls, weights_directory(None))
        self.running.sync_weights(model.named_parameters())
        return self.running

    def close(self) -> None:
        self.stack.close()
        if self.running is not None:
            self.running.close()
        self.shape = self.running = None


@pytest.fixture
def extending(engines):
    """Engines whose responses go on from round to round: servers are refused with that."""
    if engines.kind == "servers":
        pytest.skip("rollout.partial with servers is refused")
    return engines


@pytest.fixture(
    scope="module",
    params=["transformers", "servers", pytest.param("vllm", marks=NEEDS_VLLM)],
    ids=str,
)
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    started = Engines(request.param)
    yield started
    started.close()


def run(engine: Engine, params: SamplingParams, prompts=PROMPTS, seeds=SEEDS):
    return dict(engine.generate(prompts, params, seeds))


def ids(groups: dict[int, list[Completion]]) -> dict[int, list[list[int]]]:
    return {p: [list(c.token_ids) for c in group] for p, group in groups.items()}


def assert_logprobs_are_the_trainers(
    model: PreTrainedModel, groups: dict[int, list[Completion]], temperature: float, vocab_size: int
) -> None:
    rows = [
        Row(PROMPTS[p], c.token_ids, torch.tensor(c.logprobs), group=p)
        for p in groups
        for c in groups[p]
    ]
    policy = Policy(model, vocab_size, temperature)
    for batch in micro_batches(policy, samples_of(rows), range(len(rows)), 40):
        with torch.no_grad():
            logprobs = policy(batch.inputs).logprobs
        torch.testing.assert_close(logprobs, batch.column("rollout_logprobs"), atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("tied", [True, False])
def test_sampled_logprobs_are_the_trainers_also_after_a_push(engines, tied, temperature):
    params = SamplingParams(samples=3, max_tokens=12, temperature=temperature)
    model = make_model(tied)
    engine = engines(model)
    first = run(engine, params)
    assert_logprobs_are_the_trainers(model, first, temperature, VOCAB)
    newer = make_model(tied, seed=1)
    engine.sync_weights(newer.named_parameters())
    second = run(engine, params)
    assert ids(first) != ids(second)
    assert_logprobs_are_the_trainers(newer, second, temperature, VOCAB)


def test_a_push_of_some_weights_only_is_seen_in_the_logprobs(engines):
    engine = engines(make_model(tied=False))
    newer = make_model(tied=False, seed=1)
    half = [(n, p) for n, p in newer.named_parameters() if "layers.1" in n]
    engine.sync_weights(half)
    groups = run(engine, SamplingParams(samples=3, max_tokens=12))
    with pytest.raises(AssertionError, match="not close"):
        assert_logprobs_are_the_trainers(newer, groups, 1.0, VOCAB)


def test_a_long_shared_prompt_is_read_again_after_a_push(engines):
    prompt = [2 + n % 40 for n in range(90)]
    greedy = SamplingParams(samples=1, max_tokens=6, temperature=0)
    for seed in (0, 1):
        expected = run(
            TransformersEngine(make_model(seed=seed), VOCAB, (STOP,), KV_MB), greedy, [prompt], [7]
        )
        assert ids(run(engines(make_model(seed=seed)), greedy, [prompt], [7])) == ids(expected)


def test_every_prompt_gets_its_samples_and_their_finish_reasons(engines):
    groups = run(engines(make_model()), SamplingParams(samples=8, max_tokens=40))
    assert sorted(groups) == [0, 1, 2, 3]
    for completion in (c for group in groups.values() for c in group):
        assert len(completion.token_ids) == len(completion.logprobs) <= 40
        assert STOP not in completion.token_ids[:-1]
        has_ended = completion.token_ids[-1] == STOP
        assert completion.finish_reason == ("stop" if has_ended else "length")
        assert has_ended or len(completion.token_ids) == 40
    assert all(len(group) == 8 for group in groups.values())
    reasons = {c.finish_reason for group in groups.values() for c in group}
    assert reasons == {"stop", "length"}


def test_a_response_does_not_depend_on_its_company(engines):
    engine = engines(make_model())
    params = SamplingParams(samples=4, max_tokens=20)
    all_groups = ids(run(engine, params))
    for p, prompt in enumerate(PROMPTS):
        alone = ids(run(engine, params, [prompt], [SEEDS[p]]))[0]
        assert alone == all_groups[p]
        fewer = ids(run(engine, SamplingParams(2, 20), [prompt], [SEEDS[p]]))[0]
        assert fewer == all_groups[p][:2]


def test_seeds_choose_the_responses(engines):
    engine = engines(make_model())
    params = SamplingParams(samples=4, max_tokens=20)
    prompts = [[5, 6]] * 2
    first, second = ids(run(engine, params, prompts, [1, 1])).values()
    assert first == second
    first, second = ids(run(engine, params, prompts, [1, (1 << 62) - 1])).values()
    assert first != second
    assert len({tuple(response) for response in first}) > 1


def test_temperature_zero_is_greedy(engines):
    model = make_model()
    groups = run(engines(model), SamplingParams(2, 8, temperature=0))
    for p, prompt in enumerate(PROMPTS):
        expected = list(prompt)
        for _ in range(8):
            with torch.no_grad():
                expected.append(int(model(torch.tensor([expected])).logits[0, -1].argmax()))
            if expected[-1] == STOP:
                break
        assert len(groups[p]) == 2
        for completion in groups[p]:
            assert list(completion.token_ids) == expected[len(prompt) :]
            assert set(completion.logprobs) == {0.0}


def test_sampling_follows_the_distribution_within_top_p(engines):
    model = make_model()
    groups = run(engines(model), SamplingParams(400, 1, 1.3, 0.8), [[5, 6, 7]], [0])
    with torch.no_grad():
        probabilities = torch.softmax(model(torch.tensor([[5, 6, 7]])).logits[0, -1] / 1.3, -1)
    ordered, order = probabilities.sort(descending=True)
    retained = order[ordered.cumsum(-1) - ordered < 0.8].tolist()
    mass = float(probabilities[retained].sum())
    counts = dict.fromkeys(retained, 0)
    for completion in groups[0]:
        (token,) = completion.token_ids
        counts[token] += 1
        expected = float((probabilities[token] / mass).log())
        assert completion.logprobs[0] == pytest.approx(expected, abs=1e-5)
    for token, count in counts.items():
        share = float(probabilities[token]) / mass
        assert abs(count - 400 * share) < 4.5 * (400 * share * (1 - share)) ** 0.5 + 1


def test_every_stop_token_stops(engines):
    engine = engines(make_model(), stop_ids=tuple(range(VOCAB // 2)))
    groups = run(engine, SamplingParams(samples=8, max_tokens=30))
    for completion in (c for group in groups.values() for c in group):
        assert all(token >= VOCAB // 2 for token in completion.token_ids[:-1])


@pytest.mark.parametrize("prompts", [[[5], []], [[]]])
def test_an_empty_prompt_is_refused(engines, prompts):
    with pytest.raises(UserError, match=f"prompt {len(prompts)} of {len(prompts)} is empty"):
        run(engines(make_model()), SamplingParams(2, 4), prompts, [0, 10])


def test_a_prompt_without_room_for_its_response_is_refused(engines):
    engine = engines(make_model())
    fits = [5] * (CONTEXT - 10)
    groups = run(engine, SamplingParams(2, 10), [fits], [0])
    assert all(len(c.token_ids) <= 10 for c in groups[0])
    with pytest.raises(UserError, match=f"119 tokens.*response of 10.*context of {CONTEXT}"):
        run(engine, SamplingParams(2, 10), [[5], [*fits, 5]], [0, 10])


def test_nothing_to_do_is_nothing_done(engines):
    assert run(engines(make_model()), SamplingParams(2, 4), [], []) == {}


def test_closing_gives_up_the_rest_and_leaves_the_engine_usable(engines):
    engine = engines(make_model())
    params = SamplingParams(samples=4, max_tokens=20)
    expected = ids(run(engine, params))
    groups = engine.generate(PROMPTS, params, SEEDS)
    p, first = next(groups)
    groups.close()
    assert [list(c.token_ids) for c in first] == expected[p]
    engine.sync_weights(make_model(seed=1).named_parameters())
    assert ids(run(engine, params)) != expected


def test_a_group_comes_while_others_are_still_being_sampled(engines):
    tokens_heard = []
    groups = engines(make_model()).generate(
        PROMPTS * 8,
        SamplingParams(2, 60),
        range(0, 3200, 100),
        lambda *token: tokens_heard.append(token),
    )
    _, first = next(groups)
    heard_by_then = len(tokens_heard)
    lengths = [len(c.token_ids) for group in (first, *dict(groups).values()) for c in group]
    if engines.kind != "servers":  # which finish one after another in this process
        assert max(len(c.token_ids) for c in first) < max(lengths)
    assert sum(len(c.token_ids) for c in first) <= heard_by_then < len(tokens_heard) == sum(lengths)


def test_weights_that_are_not_numbers_are_an_error(engines):
    model = make_model()
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite"):
        run(engines(model), SamplingParams(samples=2, max_tokens=3))
    engines.close()


def test_sleeping_and_waking_around_a_push_changes_nothing(engines):
    engine = engines(make_model())
    params = SamplingParams(samples=2, max_tokens=10)
    before = ids(run(engine, params))
    engine.sleep()
    engine.sync_weights(make_model().named_parameters())
    engine.wake()
    assert ids(run(engine, params)) == before


def test_ids_beyond_the_tokenizer_are_never_sampled(engines):
    for tied in (True, False):
        model = make_model(tied)
        engine = engines(model, vocab_size=20)
        groups = run(engine, SamplingParams(samples=16, max_tokens=20))
        assert max(max(c.token_ids) for group in groups.values() for c in group) < 20
        assert_logprobs_are_the_trainers(model, groups, 1.0, 20)


@NEEDS_VLLM
def test_vllm_yields_a_group_while_others_are_still_being_sampled():
    from rlvr_cli.rollout.engines.vllm_engine import VllmEngine

    threads = torch.get_num_threads()
    has_group = is_joined()  # by a test before, in this process
    engine = VllmEngine(make_model(), VOCAB, (STOP,), KV_MB, gpu_share=0.3)
    try:
        assert torch.get_num_threads() == threads
        groups = engine.generate(PROMPTS * 8, SamplingParams(2, 60), list(range(0, 3200, 100)))
        next(groups)
        assert engine.llm.llm_engine.get_num_unfinished_requests() > 0
        with pytest.raises(RuntimeError, match="while responses were being generated"):
            engine.sync_weights(make_model().named_parameters())
        groups.close()
        assert engine.llm.llm_engine.get_num_unfinished_requests() == 0
    finally:
        engine.close()
    assert torch.distributed.is_initialized() == has_group


def test_a_listener_hears_every_token_in_its_order(engines):
    tokens_heard: list[int] = []
    engine = engines(make_model())
    params = SamplingParams(samples=1, max_tokens=12)
    for prompt, seed in zip(PROMPTS, SEEDS, strict=True):
        ((_, (completion,)),) = engine.generate([prompt], params, [seed], tokens_heard.append)
        assert tokens_heard == list(completion.token_ids)
        tokens_heard.clear()


def begun(samples: int = 3) -> list[Unfinished]:
    """Responses to each prompt of which no token was sampled yet."""
    return [
        Unfinished(Prompt(Problem(str(p), "?", "1"), "?", tuple(prompt), False), seed + i)
        for p, (prompt, seed) in enumerate(zip(PROMPTS, SEEDS, strict=True))
        for i in range(samples)
    ]


def extended(
    engine: Engine,
    responses: list[Unfinished],
    tokens: int,
    version: int,
    max_tokens: int = 20,
    stop: int = STOP,
) -> list[Unfinished]:
    """The responses with further tokens; those that have ended stay as they are."""
    goes_on = [
        r
        for r, response in enumerate(responses)
        if response.position < max_tokens and stop not in response.token_ids
    ]
    params = SamplingParams(1, max_tokens)
    asked = [responses[r] for r in goes_on]
    more = dict(engine.extend(asked, params, tokens))
    assert sorted(more) == list(range(len(asked)))
    rows = list(responses)
    for number, r in enumerate(goes_on):
        assert 1 <= len(more[number].token_ids) <= tokens
        rows[r] = responses[r].extended(more[number], version)
        assert rows[r].position <= max_tokens
    return rows


def test_tokens_of_several_versions_have_the_logprobs_of_their_own(extending):
    """Three weights sample a response in turn. Each part is scored alone, behind all before it."""
    models = [make_model(seed=seed) for seed in range(3)]
    engine = extending(make_model())
    responses = begun()
    for version, model in enumerate(models):
        engine.sync_weights(model.named_parameters())
        responses = extended(engine, responses, 6, version)
    assert {len(response.versions) for response in responses} >= {1, 3}
    for version, model in enumerate(models):
        rows = []
        for response in responses:
            start = sum(n for other, n in response.versions if other < version)
            count = dict(response.versions).get(version, 0)
            if count:
                ids = response.context
                prompt = ids[: len(response.prompt.token_ids) + start]
                part = response.token_ids[start : start + count]
                logprobs = torch.tensor(response.logprobs[start : start + count])
                rows.append(Row(prompt, part, logprobs))
        for batch in micro_batches(
            Policy(model, VOCAB, 1.0), samples_of(rows), range(len(rows)), 40
        ):
            with torch.no_grad():
                logprobs = Policy(model, VOCAB, 1.0)(batch.inputs).logprobs
            expected = batch.column("rollout_logprobs")
            torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=0)


def test_how_a_response_goes_on_depends_on_itself_alone(extending):
    engine = extending(make_model())
    first = extended(engine, begun(), 5, 0)
    engine.drop_keys()
    second = extended(engine, first, 5, 0)
    for r in (0, 4, 11):
        assert extended(engine, [first[r]], 5, 0)[0].token_ids == second[r].token_ids
    engine.drop_keys()
    assert extended(engine, first, 5, 0) == second  # and not on what was sampled meanwhile
    whole = run(engine, SamplingParams(3, 5))
    pieces = [[list(r.token_ids) for r in first[3 * p : 3 * p + 3]] for p in range(4)]
    assert pieces == [ids(whole)[p] for p in range(4)]


def test_keys_of_the_call_before_change_nothing_but_rounding(extending):
    """Responses end at different lengths, others begin in their places, and a longer prompt
    than any context: with keys that are kept and with keys that are computed again."""
    sampled = []
    for drops in (False, True):
        engine = extending(make_model())
        engine.drop_keys()
        responses = begun()[:7]
        for batch in ([], [0], [8, 9], [], [10, 7, 11]):
            responses += [begun()[r] for r in batch]
            responses = extended(engine, responses, 4, 0)
            if drops:
                engine.drop_keys()
        sampled.append(sorted(responses, key=lambda response: response.seed))
    for kept, computed in zip(*sampled, strict=True):
        assert kept.token_ids == computed.token_ids
        assert kept.logprobs == pytest.approx(computed.logprobs, abs=1e-4)
    assert len({response.position for response in sampled[0]}) > 2


def test_a_response_ends_at_its_longest_length_however_it_is_cut(extending):
    engine = extending(make_model(), stop_ids=())
    responses = begun(1)
    for _ in range(3):
        responses = extended(engine, responses, 4, 0, max_tokens=9, stop=-1)
    assert [response.position for response in responses] == [9] * 4
    assert responses[0].versions == ((0, 9),)
    assert list(engine.extend([], SamplingParams(1, 9), 4)) == []
    with pytest.raises(
        UserError, match=f"response of {CONTEXT} is more than.*context of {CONTEXT}"
    ):
        list(engine.extend(begun(1), SamplingParams(1, CONTEXT), 4))
