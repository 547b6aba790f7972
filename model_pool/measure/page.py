"""The tables as Markdown, and the page that they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model_pool import engines
from model_pool.measure.load import TOKENS
from model_pool.measure.subjects import STREAMS
from model_pool.spec import InstanceSpec, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from model_pool.measure.measured import Measured
    from model_pool.measure.subjects import Subject

BEGIN, END = "<!-- begin: posthouse bench engines -->", "<!-- end: posthouse bench engines -->"
_NO, _YES = "no", "yes"
# Columns of what an engine can do, by the request field that asks for it.
_FIELDS = {
    "seed": "seed",
    "penalties": "presence_penalty",
    "top k": "top_k",
    "JSON schema": "response_format",
    "tools": "tools",
    "log-probabilities": "logprobs",
}


def tables(rows: Mapping[Subject, Measured | str], run_dir: Path, machine: str) -> str:
    """Both tables; a row that was not measured says why."""
    measured = [_measured_row(subject, row) for subject, row in rows.items()]
    header = ["engine", "weights", "start", "first token", "alone", f"{STREAMS} streams", "memory"]
    how = (
        f"{machine}. Prompts of about 100 tokens, answers of exactly {TOKENS}, temperature 0. Start: to the first "
        f"answer, files in the page cache. Tokens a second alone are those after the first; with {STREAMS} streams, "
        "of all together. Memory: of all its processes, shared pages counted once."
    )
    can = [["engine", "continues an answer", *_FIELDS], *([*_abilities(name, run_dir)] for name in engines.names())]
    return "\n\n".join([_table(can), how, _table([header, *measured])])


def rewrite(page: str, content: str) -> str:
    """The page with new content between its marks.

    Raises:
        ValueError: the marks are not there.
    """
    if BEGIN not in page or END not in page:
        msg = f"the page has no place for the tables: it needs the lines {BEGIN} and {END}"
        raise ValueError(msg)
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END, 1)[1]}"


def _measured_row(subject: Subject, row: Measured | str) -> list[str]:
    name = [f"`{subject.engine}`", subject.weights]
    if isinstance(row, str):
        return [*name, f"not measured: {row}", "", "", "", ""]
    return [
        *name,
        f"{row.start:.0f} s",
        f"{row.first * 1000:.0f} ms",
        f"{row.alone:.0f} tokens/s",
        f"{row.together:.0f} tokens/s",
        f"{row.memory / 1e6:.0f} MB",
    ]


def _abilities(name: str, run_dir: Path) -> list[str]:
    engine = engines.get(name)
    options = {"url": "http://host"} if name == "remote" else {}
    spec = InstanceSpec(ModelSpec("demo", name, "org/model", options=options), 0, "cpu", run_dir)
    dialect = engine.endpoint(spec).dialect
    by = "by token ids" if engine.continues_by_ids else "by its text" if dialect.continue_message else _NO
    continues = f'{by}; by token ids with `dialect = "vllm"`' if name == "remote" else by
    return [f"`{name}`", continues, *(_YES if field in engine.request_fields else _NO for field in _FIELDS.values())]


def _table(rows: Sequence[Sequence[str]]) -> str:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
