"""A trainer of a small random model on two servers of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fake_vllm import FakeVllm, fake_vllm
from small_trainer import make_trainer

from rlvr_cli.rollout.engines.pushed import weights_directory
from rlvr_cli.rollout.engines.server_engine import ServerEngine, ServerSettings
from rlvr_cli.rollout.sampler import Sampler
from rlvr_cli.training.trainer import Trainer

QUICK = ServerSettings(timeout=2.0, tries=2)
ON_SERVERS = ("algo=grpo", "rollout.temperature=0.7", "optim.lr=0.1")


def is_even(text: str) -> bool:
    return len(text) % 2 == 0


@contextmanager
def trainer_on_servers(*settings: str) -> Iterator[tuple[Trainer, list[FakeVllm]]]:
    """A trainer of a small random model whose engine are two servers."""
    trainer = make_trainer(is_even, *ON_SERVERS, *settings)
    session = trainer.session
    model = session.policy.model
    size = len(session.policy.tokenizer)
    with fake_vllm(model.config, size) as first, fake_vllm(model.config, size) as second:
        urls = [first.url, second.url]
        engine = ServerEngine(
            model, size, session.policy.stop_ids, urls, weights_directory(None), settings=QUICK
        )
        engine.sync_weights(model.named_parameters())
        sampler = Sampler(engine, session.sampler.tokenizer, session.sampler.verifier)
        trainer.session = replace(session, engine=engine, sampler=sampler)
        trainer.config = trainer.config.model_copy(update={"engine": "server"})
        trainer.updater.mismatch_limit = trainer.config.mismatch_limit
        try:
            yield trainer, [first, second]
        finally:
            engine.close()
