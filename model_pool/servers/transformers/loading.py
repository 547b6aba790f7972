"""From a path to a model and its tokenizer: a Hugging Face folder, a hub id, or a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from model_pool.servers.face.chat_template import ChatTemplate
from model_pool.servers.face.model_tokenizer import ModelTokenizer


@dataclass(frozen=True)
class Loaded:
    """A model in its device's memory; `ends` are the ids of the tokens that end an answer."""

    model: Any
    tokenizer: ModelTokenizer
    ends: tuple[int, ...]


def load(path: str, revision: str | None, device: str, dtype: str) -> Loaded:
    """Load it; what cannot be loaded raises whatever transformers raises."""
    source: dict[str, Any] = {"pretrained_model_name_or_path": path, "revision": revision}
    options: dict[str, Any] = {"dtype": dtype if dtype == "auto" else getattr(torch, dtype), "device_map": device}
    if path.endswith(".gguf"):
        file = Path(path)
        source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        # PyTorch has no kernels for GGUF's blocks on the CPU: the weights are unpacked once.
        options["quantization_config"] = GgufConfig(dequantize=True)
        options["dtype"] = torch.float32 if dtype == "auto" and device == "cpu" else options["dtype"]
    tokenizer: Any = AutoTokenizer.from_pretrained(**source)
    model: Any = AutoModelForCausalLM.from_pretrained(**source, **options)
    model.eval()
    template = ChatTemplate(tokenizer.chat_template or "", tokenizer.special_tokens_map)
    return Loaded(model, ModelTokenizer(tokenizer.backend_tokenizer, template), _ends(model, tokenizer))


def _ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    found = model.generation_config.eos_token_id
    listed = found if isinstance(found, list) else [found]
    return tuple({*listed, tokenizer.eos_token_id} - {None})
