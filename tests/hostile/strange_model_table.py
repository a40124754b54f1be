"""Every way in which a model directory is spoilt, and what is said of it."""

import json

import torch
from strange_models import (
    ESCAPES,
    GONE,
    PICKLE,
    code,
    config,
    cut,
    edited,
    linked,
    piped,
    sparse,
    template,
    vocabulary,
    weights,
    without,
    written,
)

EVERY_AUTO = {
    "AutoConfig": "evil.Evil",
    "AutoModelForCausalLM": "evil.Evil",
    "AutoModel": "evil.Evil",
    "AutoTokenizer": ["evil.Evil", "evil.Evil"],
    "AutoProcessor": "evil.Evil",
}
UNKNOWN = {"model_type": "evil", "architectures": ["Evil"]}
EVIL = code("evil.py", "modeling.py", "tokenization.py", "processing.py", "setup.py")
TOKENIZER = "tokenizer_config.json"
REFUSED = "cannot be loaded"
FAILS = "its chat template fails on "
FINE = None
"""Nothing is wrong with it, or with what is read of it: rc 0."""

CODE_IN_IT = {
    "config of a known type": (EVIL, config(auto_map={"AutoConfig": "evil.Evil"}), FINE),
    "config of an unknown type": (EVIL, config(auto_map=EVERY_AUTO, **UNKNOWN), REFUSED),
    "config without a type": (EVIL, config(auto_map=EVERY_AUTO, model_type=GONE), REFUSED),
    "model of a known type": (EVIL, config(auto_map={"AutoModelForCausalLM": "evil.Evil"}), FINE),
    "everything of a known type": (EVIL, config(auto_map=EVERY_AUTO), FINE),
    "in another repository": (config(auto_map={"AutoConfig": "a/b--evil.E"}, **UNKNOWN), REFUSED),
    "auto_map is a text": (EVIL, config(auto_map="evil.Evil"), FINE),
    "auto_map climbs": (config(auto_map={"AutoConfig": "../evil.Evil"}, **UNKNOWN), REFUSED),
    "tokenizer of a known class": (
        EVIL,
        edited(TOKENIZER, auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]}),
        FINE,
    ),
    "tokenizer of an unknown class": (
        EVIL,
        edited(TOKENIZER, auto_map={"AutoTokenizer": [None, "evil.E"]}, tokenizer_class="Evil"),
        FINE,
    ),
    "tokenizer and config unknown": (
        EVIL,
        config(auto_map=EVERY_AUTO, **UNKNOWN),
        edited(TOKENIZER, auto_map=EVERY_AUTO, tokenizer_class="Evil"),
        REFUSED,
    ),
    "processor": (EVIL, edited("processor_config.json", auto_map=EVERY_AUTO), FINE),
    "preprocessor": (EVIL, edited("preprocessor_config.json", auto_map=EVERY_AUTO), FINE),
    "custom generate": (code("custom_generate/generate.py"), FINE),
    "named by the generation settings": (
        EVIL,
        edited("generation_config.json", custom_generate="evil.py"),
        FINE,
    ),
    "attention of the hub": (config(attn_implementation="evil/kernel"), FINE),
    "attention of the hub, checked": (config(attn_implementation="kernels-community/flash"), FINE),
    "attention, internal name": (config(_attn_implementation_internal="evil/kernel"), FINE),
    "quantizer unknown": (config(quantization_config={"quant_method": "evil"}), FINE),
    "quantizer missing": (config(quantization_config={"quant_method": "gptq", "bits": 4}), REFUSED),
    "pickled weights": (
        without("model.safetensors"),
        written("pytorch_model.bin", PICKLE),
        REFUSED,
    ),
    "pickled weights beside": (written("pytorch_model.bin", PICKLE), FINE),
    "pickled tokenizer": (written("tokenizer.model", PICKLE), FINE),
    "modules beside": (code("json.py", "torch.py", "transformers.py", "sitecustomize.py"), FINE),
}


def _without_norm(tensors):
    return {key: value for key, value in tensors.items() if key != "model.norm.weight"}


def _filled(value):
    return lambda tensors: {key: torch.full_like(t, value) for key, t in tensors.items()}


def _wider(tensors):
    key = "model.layers.0.mlp.up_proj.weight"
    return {**tensors, key: torch.zeros(7, tensors[key].shape[1])}


def _fewer_rows(tensors):
    key = "model.embed_tokens.weight"
    return {**tensors, key: tensors[key][:100]}


def _index(name):
    shards = {"metadata": {}, "weight_map": {"model.norm.weight": name}}
    return written("model.safetensors.index.json", json.dumps(shards))


WEIGHTS = {
    "missing": (without("model.safetensors"), REFUSED),
    "empty": (written("model.safetensors", ""), REFUSED),
    "cut in the header": (cut("model.safetensors", 100), REFUSED),
    "cut in the data": (cut("model.safetensors", 1_000_000), REFUSED),
    "endless header": (written("model.safetensors", b"\xff" * 8 + b"{}"), REFUSED),
    "header of 2^63": (written("model.safetensors", b"\0" * 7 + b"\x80{}"), REFUSED),
    "header no JSON": (written("model.safetensors", b"\2" + b"\0" * 7 + b"xx"), REFUSED),
    "one missing": (weights(_without_norm), "1 of its weights are missing"),
    "all renamed": (
        weights(lambda tensors: {f"x.{key}": value for key, value in tensors.items()}),
        "weights are missing",
    ),
    "renamed with escapes": (
        weights(lambda tensors: {f"{ESCAPES}{key}": value for key, value in tensors.items()}),
        "weights are missing",
    ),
    "one of another shape": (weights(_wider), REFUSED),
    "one more": (weights(lambda tensors: {**tensors, "value_head": torch.ones(3)}), FINE),
    "one more with escapes": (weights(lambda ts: {**ts, f"{ESCAPES}x": torch.ones(3)}), FINE),
    "none": (weights(lambda tensors: {}), REFUSED),
    "NaN": (weights(_filled(float("nan"))), "not finite"),
    "infinite": (weights(_filled(float("inf"))), "not finite"),
    "output layer missing": (config(tie_word_embeddings=False), "1 of its weights are missing"),
    "a pipe": (piped("model.safetensors"), "not a regular file"),
    "a device": (linked("model.safetensors", "/dev/zero"), "not a regular file"),
    "a link to nowhere": (linked("model.safetensors", "nowhere"), "No such file"),
    "a link to itself": (linked("model.safetensors", "model.safetensors"), "Too many levels"),
    "named elsewhere": (config(transformers_weights="../x.safetensors"), REFUSED),
    "index climbs": (without("model.safetensors"), _index("../out.safetensors"), "not a file"),
    "index is absolute": (without("model.safetensors"), _index("/etc/passwd"), "not a file"),
    "index names a number": (without("model.safetensors"), _index(7), "not a file"),
    "index names what is missing": (
        without("model.safetensors"),
        _index("model-1.safetensors"),
        REFUSED,
    ),
    "index without a map": (
        without("model.safetensors"),
        written("model.safetensors.index.json", "[]"),
        "has no weight_map|not a JSON object",
    ),
    "index is deep": (
        without("model.safetensors"),
        written("model.safetensors.index.json", "[" * 100_000),
        "has no weight_map|not a JSON object",
    ),
}
TOKENIZERS = {
    "missing": (without("tokenizer.json"), "tokenizer keeps nothing"),
    "both files missing": (without("tokenizer.json", TOKENIZER), REFUSED),
    "empty": (written("tokenizer.json", ""), REFUSED),
    "no object": (written("tokenizer.json", "[]"), REFUSED),
    "nothing in it": (written("tokenizer.json", "{}"), REFUSED),
    "cut": (cut("tokenizer.json", 900), REFUSED),
    "deep": (written("tokenizer.json", "[" * 100_000), REFUSED),
    "a pipe": (piped("tokenizer.json"), "not a regular file"),
    "a device": (linked("tokenizer.json", "/dev/zero"), "not a regular file"),
    "endless": (sparse("tokenizer.json", 1 << 40), "larger than 256 MB"),
    "settings missing": (without(TOKENIZER), "the two are not of one model"),
    "settings no object": (written(TOKENIZER, "[1]"), REFUSED),
    "settings cut": (cut(TOKENIZER, 30), REFUSED),
    "settings not UTF-8": (written(TOKENIZER, b"\xff\xfe{"), REFUSED),
    "end token unknown": (
        edited(TOKENIZER, eos_token=f"{ESCAPES}end"),
        "the two are not of one model",
    ),
    "end token a number": (edited(TOKENIZER, eos_token=7), REFUSED),
    "a token far beyond": (vocabulary({"a": 10**6}), "the two are not of one model"),
    "vocabulary elsewhere": (edited(TOKENIZER, vocab="/dev/zero"), "must not name a file"),
    "merges elsewhere": (edited(TOKENIZER, merges="/etc/hostname"), "must not name a file"),
    "gguf elsewhere": (edited(TOKENIZER, gguf_file="/dev/zero"), "must not name a file"),
    "named elsewhere": (edited(TOKENIZER, tokenizer_file="/dev/zero", vocab_file="/x"), FINE),
    "named elsewhere, missing here": (
        edited(TOKENIZER, tokenizer_file="/dev/zero"),
        without("tokenizer.json"),
        "tokenizer keeps nothing",
    ),
    "class unknown": (edited(TOKENIZER, tokenizer_class=f"{ESCAPES}X"), FINE),
    "more tokens than the model": (
        config(vocab_size=100, pad_token_id=0, eos_token_id=1),
        weights(_fewer_rows),
        "the two are not of one model",
    ),
}
MACRO = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"
TEMPLATES = {
    "raises": (template("{{ raise_exception('" + ESCAPES + "no') }}"), FAILS),
    "undefined": (template("{{ a.b.c }}"), FAILS),
    "no syntax": (template("{% for %}" + ESCAPES), FAILS),
    "calls a class": (template("{{ ''.__class__.__mro__[1].__subclasses__() }}"), FAILS),
    "calls globals": (template("{{ cycler.__init__.__globals__.os.system('x') }}"), FAILS),
    "calls a frame": (template("{{ lipsum.__globals__['os'].popen('x') }}"), FAILS),
    "formats a class": (template("{{ '{0.__class__.__init__}'.format(messages) }}"), "is empty"),
    "changes a list": (template("{{ messages.append(1) }}"), FAILS),
    "includes a file": (template("{% include '/etc/passwd' %}"), FAILS),
    "imports": (template("{% import 'os' as os %}{{ os }}"), FAILS),
    "never ends": (
        template("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        f"{FAILS}.*too long",
    ),
    "long text": (template("{{ 'x' * 10 ** 10 }}"), FAILS),
    "long text by a filter": (template("{{ 'x' | center(10 ** 10) }}"), FAILS),
    "long text by a format": (template("{{ '%9999999999d' % 1 }}"), FAILS),
    "large number": (template("{{ (10 ** (10 ** 9)) % 7 }}"), f"{FAILS}.*too long"),
    "large list": (template("{{ ([0] * 10 ** 9) | length }}"), FAILS),
    "large range": (template("{{ range(10 ** 9) | list }}"), FAILS),
    "calls itself": (template(MACRO), FAILS),
    "deep": (template("{% if 1 %}" * 5_000 + "{% endif %}" * 5_000), FAILS),
    "deep brackets": (template("{{ " + "(" * 20_000 + ")" * 20_000 + " }}"), FAILS),
    "longer than the context": (template("{{ 'x' * 10 ** 7 }}"), "prompts too long"),
    "not UTF-8": (written("chat_template.jinja", b"\xff\xfe"), REFUSED),
    "half a character": (template("{{ '\\ud800' }}"), FAILS),
    "empty": (template(""), "is empty"),
    "loses the problem": (template("hello"), FINE),
    "escapes": (template(ESCAPES + "{{ messages[0].content }}"), FINE),
    "a number": (template(7), FAILS),
    "a list of numbers": (template([1, 2]), REFUSED),
    "named, none of them default": (template({"tools": "x"}), FAILS),
    "a pipe": (piped("chat_template.jinja"), "not a regular file"),
    "endless": (sparse("chat_template.jinja", 1 << 40), "larger than 256 MB"),
}
LAYERS = "num_hidden_layers must be"


def _ends_with(token):
    return config(eos_token_id=token), edited("generation_config.json", eos_token_id=token)


CONFIGS = {
    "empty": (written("config.json", ""), REFUSED),
    "no object": (written("config.json", "[]"), REFUSED),
    "a number": (written("config.json", "7"), REFUSED),
    "cut": (cut("config.json", 200), REFUSED),
    "not UTF-8": (written("config.json", b'{"a": "\xff"}'), REFUSED),
    "deep": (written("config.json", '{"a":' * 100_000), REFUSED),
    "endless": (sparse("config.json", 1 << 40), "larger than 256 MB"),
    "no layers": (config(num_hidden_layers=0), LAYERS),
    "minus one layer": (config(num_hidden_layers=-1), LAYERS),
    "a million layers": (config(num_hidden_layers=10**6, layer_types=GONE), REFUSED),
    "layers a text": (config(num_hidden_layers="x" * 10_000), REFUSED),
    "layers a fraction": (config(num_hidden_layers=1.5), REFUSED),
    "layers a list": (config(num_hidden_layers=[1]), REFUSED),
    "more layers than weights": (config(num_hidden_layers=6, layer_types=GONE), "are missing"),
    "no heads": (config(num_attention_heads=0), REFUSED),
    "no heads of keys": (config(num_key_value_heads=0), "num_key_value_heads must be"),
    "heads that do not divide": (config(num_attention_heads=7), REFUSED),
    "width 0": (config(hidden_size=0), REFUSED),
    "width of a billion": (config(hidden_size=10**9), "hidden_size must be"),
    "width of a million": (config(hidden_size=10**6), "describes .* parameters"),
    "inner width of ten million": (config(intermediate_size=10**7), "describes .* parameters"),
    "vocabulary 0": (config(vocab_size=0), REFUSED),
    "vocabulary of a billion": (config(vocab_size=10**9), "vocab_size must be"),
    "vocabulary of ten million": (config(vocab_size=10**7), "describes .* parameters"),
    "context 0": (config(max_position_embeddings=0), "max_position_embeddings must be"),
    "context without end": (config(max_position_embeddings=10**18), REFUSED),
    "context of one token": (config(max_position_embeddings=1), "no room for a short answer"),
    "context of few tokens": (config(max_position_embeddings=80), FINE),
    "context a text": (config(max_position_embeddings="x"), REFUSED),
    "end token a text": (*_ends_with("x"), REFUSED),
    "end tokens texts": (*_ends_with(["<|end|>"]), REFUSED),
    "end token a fraction": (*_ends_with(1.5), REFUSED),
    "end token an object": (*_ends_with({"a": 1}), REFUSED),
    "end token negative": (*_ends_with(-1), FINE),
    "end token too large": (
        *_ends_with(10**9),
        edited(TOKENIZER, eos_token=None),
        "names an end token",
    ),
    "type with escapes": (config(model_type=ESCAPES), REFUSED),
    "another type": (config(model_type="llama"), FINE),
    "type a number": (config(model_type=7), REFUSED),
    "type unknown": (config(model_type="evil"), REFUSED),
    "activation unknown": (config(hidden_act=f"{ESCAPES}x"), REFUSED),
    "number type unknown": (config(dtype="evil", torch_dtype="evil"), REFUSED),
    "layer types unknown": (config(layer_types=["evil"] * 4), REFUSED),
    "too few layer types": (config(layer_types=["full_attention"]), REFUSED),
    "rope unknown": (config(rope_parameters={"rope_type": "evil", "rope_theta": 1}), REFUSED),
    "rope without a base": (
        config(rope_parameters={"rope_type": "default", "rope_theta": 0}),
        "not finite",
    ),
    "architecture unknown": (config(architectures=["Evil"]), FINE),
    "an adapter": (
        written("adapter_config.json", json.dumps({"base_model_name_or_path": "a/b"})),
        "it holds an adapter, not a model",
    ),
}
GENERATION = "generation_config.json"
PUBLISHED = {
    "a temperature without sampling": (edited(GENERATION, temperature=0.6, top_p=0.9), FINE),
    "everything": (edited(GENERATION, do_sample=True, num_beams=4, max_length=1, top_k=0), FINE),
    "no object": (written(GENERATION, "[]"), REFUSED),
    "cut": (written(GENERATION, '{"a":'), REFUSED),
    "texts": (edited(GENERATION, temperature="hot", max_new_tokens="x"), REFUSED),
    "unknown keys": (edited(GENERATION, evil=ESCAPES), FINE),
    "missing": (without(GENERATION), FINE),
}
KINDS = {
    "code": CODE_IN_IT,
    "weights": WEIGHTS,
    "tokenizer": TOKENIZERS,
    "template": TEMPLATES,
    "config": CONFIGS,
    "generation": PUBLISHED,
}
SITUATIONS = [
    (f"{kind}: {name}", spoils, expected)
    for kind, table in KINDS.items()
    for name, (*spoils, expected) in table.items()
]
