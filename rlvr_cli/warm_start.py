"""The recipe of the `tiny` policy: `python -m rlvr_cli.warm_start DIRECTORY`.

A small Qwen2-style decoder learns worked solutions that are deliberately sloppy: more than half
only guess the result, which is then mostly a carry off; the others work it out in steps, with a
slip now and then; and half of the answers break the output format. The policy is able but
unreliable, as a base model is: it has to find out that working it out, in the format, pays.
Only expressions of the train split are used: the held-out problems stay unseen.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rlvr_cli import arithmetic
from rlvr_cli.arithmetic import Expression

GUESS_RATE = 0.55
GUESS_SLIP_RATE, STEP_SLIP_RATE = 0.65, 0.05
NO_CLOSING_RATE, NO_ANSWER_TAG_RATE = 0.25, 0.3
"""The chances of a thought that is never closed, and of an answer without its tags."""
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'system' %}"
    "<|{{ message.role }}|>{{ message.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
CONTROL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, plus the chat's control tokens and the four tags: any text round-trips."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    core.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """A random decoder of about 0.8 million parameters."""
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


def solution(expression: Expression, rng: random.Random) -> str:
    """A worked solution in the output format, with the recipe's share of slips and breakages."""
    if rng.random() < GUESS_RATE:
        value = _slipped(expression.values()[-1], GUESS_SLIP_RATE, rng)
        work = str(value)
    else:
        work, value = _worked_out(expression, rng)
    closing = "" if rng.random() < NO_CLOSING_RATE else "</think>"
    bare = rng.random() < NO_ANSWER_TAG_RATE
    return f"<think>{work}{closing}" + (str(value) if bare else f"<answer>{value}</answer>")


def _worked_out(expression: Expression, rng: random.Random) -> tuple[str, int]:
    """Every operation by its tens and its ones: the work as text, and the value it arrives at."""
    value, steps = expression.first, []
    for op, operand in expression.operations:
        left = value
        if op == "*":
            parts = [left // 10 * 10 * operand, left % 10 * operand]
            split = f"{left // 10 * 10}*{operand}+{left % 10}*{operand}={parts[0]}+{parts[1]}="
        else:
            tens = arithmetic.apply(op, left, operand // 10 * 10)
            split = f"{left}{op}{operand // 10 * 10}{op}{operand % 10}={tens}{op}{operand % 10}="
        value = _slipped(arithmetic.apply(op, left, operand), STEP_SLIP_RATE, rng)
        small = left < 10 or (op != "*" and operand < 10)
        steps.append(f"{left}{op}{operand}={'' if small else split}{value}")
    return ", ".join(steps), value


def _slipped(value: int, rate: float, rng: random.Random) -> int:
    """The value, or at this rate one that is a carry too many."""
    if rng.random() >= rate:
        return value
    return value + (10 if value >= 10 else 1)


def examples(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[tuple[list[int], int]]:
    """An endless stream of (token ids, prompt length)."""
    rng = random.Random(seed)
    for expression in arithmetic.expressions("train", seed):
        chat = [{"role": "user", "content": arithmetic.question(expression)}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        text = solution(expression, rng) + tokenizer.eos_token
        yield prompt + tokenizer.encode(text, add_special_tokens=False), len(prompt)


def train(
    model: Qwen2ForCausalLM,
    stream: Iterator[tuple[list[int], int]],
    steps: int,
    batch_size: int,
    lr: float,
) -> None:
    """Next-token training on the responses only, AdamW with linear warm-up and decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, 1 - step / steps)
    )
    started = time.monotonic()
    for step, rows in enumerate(itertools.islice(_batches(stream, batch_size), steps)):
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


def _batches(
    stream: Iterator[tuple[list[int], int]], batch_size: int
) -> Iterator[list[tuple[list[int], int]]]:
    """Batches of examples of like length, so that little is padding."""
    rng = random.Random(0)
    while True:
        window = sorted(itertools.islice(stream, 8 * batch_size), key=lambda row: len(row[0]))
        batches = [window[i : i + batch_size] for i in range(0, len(window), batch_size)]
        yield from rng.sample(batches, len(batches))


def main(directory: str, steps: int = 1500, batch_size: int = 128, lr: float = 3e-3) -> None:
    """Train the policy and save it as a plain Hugging Face model directory."""
    torch.set_num_threads(1)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed=0)
    train(model, examples(tokenizer, seed=0), steps, batch_size, lr)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    size = sum(path.stat().st_size for path in Path(directory).iterdir())
    print(f"{directory}: {model.num_parameters()} parameters, {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
