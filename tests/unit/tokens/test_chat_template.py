"""Chat templates render as transformers renders them, in a sandbox."""

from __future__ import annotations

import pytest

from app.tokens.template import ChatTemplate, TemplateRefusal, TemplateUnusable

SAY = [{"role": "user", "content": "<hi> & 'you' 驿"}]


def render(source: str, **more: object) -> str:
    return ChatTemplate(source, {"bos_token": "<s>"}).render(SAY, None, **more)


def test_blocks_leave_no_white_space_of_their_own() -> None:
    assert render("{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}") == (
        SAY[0]["content"] + "\n"
    )


def test_json_is_not_escaped_for_html() -> None:
    assert render("{{ messages[0] | tojson }}") == '{"role": "user", "content": "<hi> & \'you\' 驿"}'


def test_what_templates_expect_is_there() -> None:
    assert render("{{ bos_token }}{{ add_generation_prompt }}{{ tools }}{{ effort }}", effort="low") == "<s>TrueNonelow"
    assert render("{{ strftime_now('%Y') }}").isdigit()
    assert render("{% for n in [1, 2, 3] %}{% if n == 2 %}{% continue %}{% endif %}{{ n }}{% endfor %}") == "13"
    assert render("{% generation %}a{{ 1 }}{% endgeneration %}b") == "a1b"


def test_a_template_may_refuse_a_conversation_in_its_own_words() -> None:
    with pytest.raises(TemplateRefusal, match="only two roles"):
        render("{{ raise_exception('only two roles') }}")


@pytest.mark.parametrize("source", ["{{ messages[0].content + none }}", "{{ undefined_name.field }}", "{{ 1 / 0 }}"])
def test_a_template_that_fails_shows_nothing_of_the_conversation(source: str) -> None:
    with pytest.raises(TemplateUnusable) as caught:
        render(source)
    assert "hi" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(TemplateUnusable):
        render(source)


def test_a_template_that_is_none_is_found_out_when_it_is_loaded() -> None:
    with pytest.raises(TemplateUnusable, match="line 1"):
        ChatTemplate("{% if %}", {})
