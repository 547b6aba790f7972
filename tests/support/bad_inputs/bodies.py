"""Bodies that are no strict JSON object of valid text, or are no JSON at all."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.bad_inputs.request import CHAT, RESPONSES, TOKENS, Bad

HALF = b"\\ud800"  # half of a surrogate pair, as an escape of JSON
NUL = b"\\u0000"
START = b'{"model": "paced", "messages": [{"role": "user", "content": "hi"}], '
_BODIES = {
    "an empty body": b"",
    "only blanks": b"  ",
    "no json": b"{nonsense",
    "cut off": START,
    "a list": b"[1]",
    "a number": b"1",
    "null": b"null",
    "a text": b'"x"',
    "two objects": b"{}{}",
    "single quotes": b"{'model': 'paced'}",
    "a comment": b'{"model": "paced" /* hi */}',
    "a comma too many": START + b'"n": 1,}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"model": "paced"}'.encode("utf-16"),
    "latin-1": START + '"user": "é"}'.encode("latin-1"),
    "a byte that is none": START + b'"user": "\xff"}',
    "an overlong slash": START + b'"user": "\xc0\xaf"}',
    "a surrogate in utf-8": START + b'"user": "\xed\xa0\x80"}',
    "a raw control character": START + b'"user": "a\nb"}',
    "NaN": START + b'"temperature": NaN}',
    "Infinity": START + b'"temperature": Infinity}',
    "-Infinity": START + b'"top_p": -Infinity}',
    "1e999": START + b'"temperature": 1e999}',
    "-1e999": START + b'"temperature": -1e999}',
    "5000 digits": START + b'"seed": ' + b"1" * 5000 + b"}",
    "half a character": START + b'"user": "' + HALF + b'"}',
    "the other half": START + b'"stop": "\\udc00"}',
    "halves in the wrong order": START + b'"stop": ["\\ude00\\ud83d"]}',
    "half a character as a key": START + b'"metadata": {"' + HALF + b'": "x"}}',
    "half a character in a label": START + b'"metadata": {"k": "' + HALF + b'"}}',
    "half a character in content": b'{"model": "paced", "messages": [{"role": "user", "content": "' + HALF + b'"}]}',
    "nul": START + b'"user": "' + NUL + b'"}',
    "nul in a label": START + b'"metadata": {"k": "' + NUL + b'"}}',
    "nul in a key": START + b'"metadata": {"' + NUL + b'": "x"}}',
    "deep": START + b'"metadata": ' + b"[" * 100 + b"]" * 100 + b"}",
    "very deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "never closed": b"[" * 500_000,
}


def raw() -> Iterator[Bad]:
    """Bodies that are no strict JSON object of valid text."""
    for name, body in _BODIES.items():
        for path in (CHAT, RESPONSES, TOKENS):
            yield Bad(name, "POST", path, body, None)
    for path in (CHAT, RESPONSES, TOKENS):
        doubled = b'{"model": "paced", "user": "a", "user": "b"}'
        yield Bad("one field twice", "POST", path, doubled, "user")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            headers = {"Content-Type": kind}
            yield Bad(f"sent as {kind!r}", "POST", path, b"{}", None, 415, "unsupported_media_type", headers)
        for coding in ("gzip", "br", "identity, gzip"):
            headers = {"Content-Encoding": coding}
            yield Bad(f"coded as {coding}", "POST", path, b"{}", None, 415, "unsupported_media_type", headers)
        yield Bad("too large", "POST", path, b" " * 1_100_000, None, 413, "body_too_large")
