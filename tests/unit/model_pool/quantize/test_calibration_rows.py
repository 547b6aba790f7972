"""Bad calibration data gives bad weights without a word, so it is refused before anything is quantised."""

from __future__ import annotations

import pytest

from model_pool.quantize.calibration import RowCounts, calibration_set, messages_of
from model_pool.quantize.errors import CalibrationError
from model_pool.quantize.recipe import CalibrationLimits
from model_pool.quantize.texts import calibration_chats, held_out_texts

LIMITS = CalibrationLimits(min_tokens=3, max_tokens=5, min_rows=3)


def encode(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def test_distinct_filled_and_long_enough_rows_are_kept_in_order_and_cut():
    found = calibration_set(["a bb ccc", "dd e f g h i j", "k ll mmm nn"], encode, LIMITS)

    assert found.rows == ((1, 2, 3), (2, 1, 1, 1, 1), (1, 2, 3, 2))
    assert found.counts == RowCounts(given=3, usable=3, blank=0, duplicate=0, short=0)


def test_every_row_that_is_not_usable_is_counted_once_by_its_reason():
    texts = ["a b c", "d e f", "g h i", "", " \n\t ", "a b c", "a b c", "too short"]

    assert calibration_set(texts, encode, LIMITS).counts == RowCounts(given=8, usable=3, blank=2, duplicate=2, short=1)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["a b c", "d e f"], "2 of 2 "),
        (["", " ", "\n"] * 50, "150 blank"),
        (["the very same row"] * 128, "1 of 128 .* 127 duplicate"),
        (["hi", "oh no", "yes"], "3 too short"),
        ([], "0 of 0 "),
    ],
    ids=["few", "blank", "repeated", "short", "none"],
)
def test_too_few_usable_rows_are_refused_with_asked_and_usable_counts(texts: list[str], reason: str):
    with pytest.raises(CalibrationError, match=rf"{reason}.*at least 3 are needed"):
        calibration_set(texts, encode, LIMITS)


def test_turns_alternate_between_user_and_assistant():
    assert messages_of(("hello", "hi", "bye")) == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "bye"},
    ]


def test_the_shipped_texts_are_enough_and_end_with_an_answer():
    """Plain words stand for tokens here; real tokens are never fewer."""
    chats = calibration_chats()
    texts = [" ".join(chat) for chat in chats]

    assert calibration_set(texts, str.split, CalibrationLimits(min_tokens=1)).counts.usable == len(chats)  # type: ignore[arg-type]
    assert all(len(chat) % 2 == 0 for chat in chats)


def test_nothing_that_is_measured_on_was_calibrated_on():
    calibrated = "\n".join(turn for chat in calibration_chats() for turn in chat)

    for text in held_out_texts():
        assert not [sentence for sentence in text.split(". ") if sentence in calibrated]
