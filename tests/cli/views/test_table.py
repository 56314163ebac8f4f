"""Tables fit the terminal, whatever is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.views.table import bar, cut_to, facts, table, terminal_width, width_of, wrapped

ROWS = [("NAME", "TYPE", "WHY"), ("model.layers.{0-31}.mlp.up_proj.weight", "int4", "a " * 20)]


@pytest.fixture(autouse=True)
def pipe(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout", None)


def test_without_a_terminal_nothing_is_cut(monkeypatch):
    assert terminal_width() is None
    assert ROWS[1][0] in table(ROWS)[1]
    for nonsense in ("", "0", "x", "-5"):
        monkeypatch.setenv("COLUMNS", nonsense)
        assert terminal_width() is None
    monkeypatch.setenv("COLUMNS", "7")
    assert terminal_width() == 40


def test_columns_go_in_their_order_and_then_cells_are_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert "TYPE" not in table(ROWS, spare=(1,), cut=(2, 0))[0]
    head, row = table(ROWS, cut=(2, 0))
    assert head.split() == ["NAME", "TYPE", "WHY"]
    assert row.startswith("model.layers.{0-31}.mlp.up_proj.weight  int4  a a a")
    assert row.endswith("…")


def test_a_path_is_broken_behind_a_slash_and_a_name_behind_a_dot():
    assert wrapped("of /usr/lib/python/site-packages/x", 20) == [
        "of",
        "/usr/lib/python/",
        "site-packages/x",
    ]
    assert wrapped("model.layers.{0-1}.self_attn.o_proj.weight", 38) == [
        "model.layers.{0-1}.self_attn.o_proj.",
        "weight",
    ]
    assert wrapped("a" * 30, 20) == ["a" * 20, "a" * 10]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@given(
    names=st.lists(st.text(max_size=90), min_size=1, max_size=5),
    values=st.lists(st.text(max_size=90), min_size=1, max_size=5),
)
def test_every_line_fits(columns, names, values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        rows = [(name, "x11", value) for name, value in zip(names, values, strict=False)]
        lines = table(rows, indent=2, cut=(0, 2)) + facts(
            ((name[:8], value) for name, _, value in rows), 4
        )

    assert max(map(width_of, lines)) <= columns


@given(st.text(max_size=200), st.integers(5, 60))
def test_nothing_is_lost_by_wrapping(text, room):
    lines = wrapped(text, room)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert max(map(width_of, lines)) <= room


def test_of_a_name_the_end_stays_and_of_a_text_the_beginning():
    assert cut_to("model.layers.0.up", 8) == "…rs.0.up"
    assert cut_to("two words here", 8) == "two wor…"
    assert cut_to("模型模型", 5) == "…模型"
    assert cut_to("short", 5) == "short"


def test_a_bar_has_eighths():
    assert bar(0.5, 4) == "██  "
    assert bar(1 / 32, 4) == "▏   "
    assert (bar(-1, 2), bar(7, 2)) == ("  ", "██")


def test_untrusted_cells_are_escaped():
    assert table([("\x1b[2J", "a\nb")]) == ["\\x1b[2J    a\\x0ab"]
    assert facts([("\x1b", "\u202e")], 0) == ["\\x1b    \\u202e"]
