"""A model folder with a real tokenizer and a chat template, made in a moment; it has no weights."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role not in ("system", "user", "assistant", "tool") %}
        {{- raise_exception("no role " + message.role) }}
    {%- endif %}
<|{{ message.role }}|>{{ message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- call.function.arguments.city }}
    {%- endfor %}
{%- endfor %}
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def make_tiny_model(folder: Path, template: str = TEMPLATE) -> Path:
    """Every byte is a token, special tokens are one each."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"])
    tokenizer.enable_truncation(16)  # as some published folders have it
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
