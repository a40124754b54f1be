"""Make the `tiny` policy: `python benchmarks/tiny_recipe.py DIRECTORY`.

A small Qwen2-style decoder learns from solutions of the built-in chains that work like a pupil with
misconceptions: of the facts, such as 7 + 5 ends in 2, some are known well, some are half known, and
some are nearly always taken for one and the same wrong digit. Before each operation but the last, a
solution may also skip the rest and guess. The policy knows how to work a chain out, seldom does it
to the end, and errs where it does: it has to unlearn one fact after the other, and to find out that
longer work is worth it once its facts can be trusted.
Only chains of the train split are used: the held-out problems stay unseen.
"""

import functools
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlvr_cli.data import chains
from rlvr_cli.data.chains import Chain


@dataclass(frozen=True)
class Stage:
    """What is learned at a time: the chance of a skip, weights of levels, steps, learning rate, and
    the least chance that a fact is taken right."""

    skip: float
    weights: tuple[float, ...]
    steps: int
    lr: float
    least: float = 0.0


EVEN = (1,) * 8
LONG = (1, 1, 1, 1, 2, 2, 2, 2)
STAGES = (
    Stage(0.25, (4, 3, 2, 1, 0, 0, 0, 0), 600, 2e-3),
    Stage(0.25, EVEN, 400, 1.5e-3),
    Stage(0.03, LONG, 360, 2e-3),
    Stage(0.03, LONG, 300, 1e-3, least=0.2),
    Stage(0.3, EVEN, 130, 1e-3, least=0.2),
)
"""The first operations, all of them, chains to their end until no operation is copied wrongly, and
then seldom so. A fact that is right less often than a guess, one time in ten, would teach the
policy to miscopy the operation instead: in the end the worst is right twice as often."""
KNOWN = ((0.3, 0.97), (0.25, 0.75), (0.2, 0.4), (0.15, 0.1), (0.1, 0.03))
"""Shares of the facts, and how often those are taken right."""
BROKEN = 0.05
"""The chance that a thought is not closed, and that an answer has no tags."""
SKIP = " ... "
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'system' %}"
    "<|{{ message.role }}|>{{ message.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
CONTROL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
PIECES = [chains.START, chains.RULE, SKIP, *chains.LABELS]
"""What the problems and their solutions repeat: one token each."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer of one token per byte, plus the chat's control tokens, the four tags and
    the pieces of the built-in problems: any text round-trips."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    core.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in [*TAGS, *PIECES]])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        unk_token="<|pad|>",  # else Qwen2's own would be a token without a row in the model
        eos_token="<|end|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """Build a randomly initialized decoder of about 0.8 million parameters."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def solution(chain: Chain, stage: Stage, rng: random.Random) -> str:
    """Write a solution in the output format, with its share of skips, misconceptions, breakages."""
    value = chain.first
    work = ""
    for label, (op, operand) in zip(chains.LABELS, chain.operations, strict=False):
        is_last = label == chains.LABELS[len(chain.operations) - 1]
        if not is_last and rng.random() < stage.skip:
            value = rng.randrange(10)
            work += f"{SKIP}{value}"
            break
        chance, wrong = _fact(value, op, operand)
        is_right = rng.random() < max(chance, stage.least)
        result = chains.apply(op, value, operand) if is_right else wrong
        work += f"{label}{value}{op}{operand}={result}"
        value = result
    closing = "" if rng.random() < BROKEN else "</think>"
    is_bare = rng.random() < BROKEN
    return f"<think>{work}{closing}" + (str(value) if is_bare else f"<answer>{value}</answer>")


@functools.cache
def _fact(left: int, op: str, operand: int) -> tuple[float, int]:
    """Return how often the pupil takes a fact right, and its wrong digit, drawn from its text."""
    rng = random.Random(f"{left}{op}{operand}")
    ((_, chance),) = rng.choices(KNOWN, [share for share, _ in KNOWN])
    return chance, (chains.apply(op, left, operand) + rng.randint(1, 9)) % 10


def batches(
    tokenizer: PreTrainedTokenizerFast, stage: Stage, batch_size: int, seed: int
) -> Iterator[list[tuple[list[int], int]]]:
    """Yield an endless stream of batches of (token ids, prompt length), each of like lengths."""
    rng = random.Random(seed)
    stream = chains.chains("train", seed, stage.weights)
    while True:
        pool = []
        for chain in itertools.islice(stream, 4 * batch_size):
            chat = [{"role": "user", "content": chain.text}]
            prompt = tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_dict=False
            )
            text = solution(chain, stage, rng) + tokenizer.eos_token
            pool.append((prompt + tokenizer.encode(text, add_special_tokens=False), len(prompt)))
        pool.sort(key=lambda row: len(row[0]))
        batches = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        rng.shuffle(batches)
        yield from batches


def train(
    model: Qwen2ForCausalLM, stream: Iterator[list[tuple[list[int], int]]], steps: int, lr: float
) -> None:
    """Train on next tokens of the responses only, AdamW with linear warm-up and decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 1 - step / steps)
    )
    started = time.monotonic()
    for step in range(steps):
        rows = next(stream)
        ids = pad_sequence([torch.tensor(tokens) for tokens, _ in rows], batch_first=True)
        learned = [torch.tensor([-100] * start + tokens[start:]) for tokens, start in rows]
        labels = pad_sequence(learned, batch_first=True, padding_value=-100)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99 or step == steps - 1:
            seconds = time.monotonic() - started
            print(
                f"step {step} loss {loss.item():.4f} {seconds:.0f} s", file=sys.stderr, flush=True
            )


def main(directory: str, stages: Sequence[Stage] = STAGES, batch_size: int = 64) -> None:
    """Train the policy stage by stage and save it as a plain model directory."""
    torch.set_num_threads(1)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed=0)
    for seed, stage in enumerate(stages):
        stream = batches(tokenizer, stage, batch_size, seed)
        train(model, stream, stage.steps, stage.lr)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    size = sum(path.stat().st_size for path in Path(directory).iterdir())
    print(f"{directory}: {model.num_parameters()} parameters, {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
