"""The recipe of the `tiny` policy: `python -m rlvr_cli.tiny.recipe DIRECTORY`.

A small Qwen2-style decoder first learns to work problems out in steps. Then it learns from
solutions that are deliberately sloppy: more than half only guess the result, which is then mostly a
carry off; the others hold a slip now and then; and half of the answers break the output format. The
policy is able but unreliable, as a base model is: it has to find out that working it out, in the
format, pays.
Only expressions of the train split are used: the held-out problems stay unseen.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlvr_cli.data import arithmetic
from rlvr_cli.data.arithmetic import Expression


@dataclass(frozen=True)
class Sloppiness:
    """The chances of what goes wrong in a solution."""

    guess: float = 0.0
    slip_in_guess: float = 0.0
    slip_in_step: float = 0.0
    thought_not_closed: float = 0.0
    answer_without_tags: float = 0.0


STAGES = (
    (Sloppiness(), 4000, 2e-3),
    (Sloppiness(0.55, 0.65, 0.05, 0.25, 0.3), 300, 5e-4),
    (Sloppiness(0.6, 0.65, 0.02, 0.25, 0.3), 100, 3e-4),
)
"""What is learned one after the other: how sloppy, steps, learning rate."""
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'system' %}"
    "<|{{ message.role }}|>{{ message.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
CONTROL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer of one token per byte, plus the chat's control tokens and the four tags:
    any text round-trips."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    core.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
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


def solution(expression: Expression, sloppiness: Sloppiness, rng: random.Random) -> str:
    """Write a solution in the output format, with its share of guesses, slips and breakages."""
    if rng.random() < sloppiness.guess:
        value = _slipped(expression.values()[-1], sloppiness.slip_in_guess, rng)
        work = str(value)
    else:
        work, value = _worked_out(expression, sloppiness.slip_in_step, rng)
    closing = "" if rng.random() < sloppiness.thought_not_closed else "</think>"
    bare = rng.random() < sloppiness.answer_without_tags
    return f"<think>{work}{closing}" + (str(value) if bare else f"<answer>{value}</answer>")


def _worked_out(expression: Expression, slip: float, rng: random.Random) -> tuple[str, int]:
    """Work out one step per operation, products by tens and ones; return the work and its value."""
    value, steps = expression.first, []
    for op, operand in expression.operations:
        left, shown = value, f"{value}{op}{operand}="
        if op == "*":
            tens, ones = left // 10 * 10, left % 10
            shown += f"{tens}*{operand}+{ones}*{operand}={tens * operand}+{ones * operand}="
        value = _slipped(arithmetic.apply(op, left, operand), slip, rng)
        steps.append(f"{shown}{value}")
    return ", ".join(steps), value


def _slipped(value: int, rate: float, rng: random.Random) -> int:
    """Return the value, or at this rate one that is a carry too many."""
    if rng.random() >= rate:
        return value
    return value + (10 if value >= 10 else 1)


def examples(
    tokenizer: PreTrainedTokenizerFast, sloppiness: Sloppiness, seed: int
) -> Iterator[tuple[list[int], int]]:
    """Yield an endless stream of (token ids, prompt length)."""
    rng = random.Random(seed)
    for expression in arithmetic.expressions("train", seed):
        chat = [{"role": "user", "content": arithmetic.question(expression)}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        text = solution(expression, sloppiness, rng) + tokenizer.eos_token
        yield prompt + tokenizer.encode(text, add_special_tokens=False), len(prompt)


def train(
    model: Qwen2ForCausalLM,
    stream: Iterator[tuple[list[int], int]],
    steps: int,
    batch_size: int,
    lr: float,
) -> None:
    """Train on next tokens of the responses only, AdamW with linear warm-up and decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 1 - step / steps)
    )
    started = time.monotonic()
    for step in range(steps):
        rows = list(itertools.islice(stream, batch_size))
        longest = max(len(ids) for ids, _ in rows)
        ids = torch.zeros(batch_size, longest, dtype=torch.long)
        labels = torch.full((batch_size, longest), -100)
        for i, (tokens, prompt_length) in enumerate(rows):
            ids[i, : len(tokens)] = torch.tensor(tokens)
            labels[i, prompt_length : len(tokens)] = ids[i, prompt_length : len(tokens)]
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


def main(
    directory: str,
    stages: Sequence[tuple[Sloppiness, int, float]] = STAGES,
    batch_size: int = 64,
) -> None:
    """Train the policy stage by stage and save it as a plain model directory."""
    torch.set_num_threads(2)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed=0)
    for seed, (sloppiness, steps, lr) in enumerate(stages):
        train(model, examples(tokenizer, sloppiness, seed), steps, batch_size, lr)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    size = sum(path.stat().st_size for path in Path(directory).iterdir())
    print(f"{directory}: {model.num_parameters()} parameters, {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
