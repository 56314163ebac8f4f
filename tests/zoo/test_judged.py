"""The table of what was judged is written from what checkers note."""

from __future__ import annotations

import pytest

from tests.zoo import judged

ROW = judged.JudgedRow("ONNX", "raw", "torch 2", "onnx", "2 files", 0, "check_onnx.py")
BEFORE = f"# Judged\n\n{judged.HEADING}\n|---|---|---|---|---|---|---|\n"
KEPT = "| GGUF | Q8_0 | a | b | c | 0 | check_gguf.py |"


@pytest.fixture
def page(tmp_path, monkeypatch):
    path = tmp_path / "judged.md"
    old = ROW._replace(what="1 file")
    path.write_text(f"{BEFORE}{old}\n{KEPT}\n\nAnd more.\n", encoding="utf-8")
    monkeypatch.setattr(judged, "PAGE", path)
    return path


def test_rows_of_a_checker_are_replaced_and_others_stay(tmp_path, page, monkeypatch):
    noted = tmp_path / "noted"
    monkeypatch.setenv("INGOT_JUDGED", str(noted))
    judged.note(ROW)
    judged.note(ROW._replace(scheme="typed", differ=3))
    monkeypatch.setattr("sys.argv", ["judged.py", str(noted)])

    judged.main()

    text = page.read_text(encoding="utf-8")
    typed = ROW._replace(scheme="typed", differ=3)
    assert text == f"{BEFORE}{KEPT}\n{ROW}\n{typed}\n\nAnd more.\n"


def test_nothing_is_noted_unless_a_file_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("INGOT_JUDGED", raising=False)
    monkeypatch.chdir(tmp_path)

    judged.note(ROW)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "shown"),
    [(7, "7"), (10_670, "10 670"), (999_999, "999 999"), (5_700_000, "5.7 10^6")],
)
def test_counts_are_written_as_the_page_has_them(count, shown):
    assert judged.million(count) == shown


def test_the_page_has_the_table():
    text = judged.PAGE.read_text(encoding="utf-8")

    assert text.count(judged.HEADING) == 1
