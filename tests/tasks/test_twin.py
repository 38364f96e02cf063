"""Twins: the language of an item has its right answers and no others, for every way of cutting them into tokens."""

from __future__ import annotations

import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.languages import from_dict, load
from unmask.samplers import generate
from unmask.tasks import TASKS
from unmask.tasks.lists import REQUESTS
from unmask.tasks.twin import cells, cut, twin

SMALL = [f"lists(operation={name!r}, low=4, high=4)" for name in REQUESTS]


@pytest.mark.parametrize("name", [*SMALL, "sudoku(empty=10, unique=False)", "latin"])
def test_the_support_is_the_right_answers(name):
    task = TASKS.make(name)
    item = task.items(None)[3]
    language = twin(task.solutions(item), cells)
    texts = {" ".join(cell.replace(" ", "_") for cell in cells(text)) for text in task.solutions(item)}
    assert {language.render(row).strip() for row in language.answers} == texts
    assert torch.equal(language.encode([language.render(row) for row in language.answers]), language.answers)
    assert (language.weights == 1).all()
    spec = f"twin(task={name!r}, item=3)"
    assert torch.equal(load(spec).answers, language.answers)


def test_tokens_of_names_and_separators():
    texts = ['["Ada Ash", "Ben Bell"]', '["Ben Bell", "Ada Ash"]', '["Ada Ash"]']
    language = twin(texts, cut(2, (1, 1, 2)), length=9)
    assert [language.render(row).strip() for row in language.answers] == [
        "[ Ada Ash , Ben Bell ] ] $",
        "[ Ben Bell , Ada Ash ] ] $",
        "[ Ada Ash ] ] $",
    ]
    assert language.names[language.end] == "$ "
    assert language.sizes(language.answers).tolist() == [9, 9, 6]
    ids = twin(texts, lambda text: [ord(sign) for sign in text], length=30, end=7)  # any tokenizer
    assert ids.vocabulary == len(set("".join(texts))) + 1
    assert ids.names[ids.end] == "7 "
    assert ids.answers.shape == (3, 30)


def test_a_twin_is_read_from_a_specification_and_a_file(tmp_path):
    language = load("twin(task='shuffle', size=4, symbols=2, separators=(1, 1, 1), orders=all)")
    assert language.describe() | {"entropy_bits": 0} == {
        "kind": "twin",
        "vocabulary": 11,
        "answers": 24,
        "length": 13,
        "entropy_bits": 0,
    }
    assert language.posterior(language.blank(1, 13))[0, 0].tolist() == [1.0] + [0.0] * 10
    language.save(tmp_path / "twin.json")
    for again in (load(tmp_path / "twin.json"), from_dict(language.to_dict())):
        assert torch.equal(again.answers, language.answers)
        assert again.source() == language.source()
    assert len(load("twin(size=4)").answers) == 23


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("twin(size=9)", "right answers of item 0 are not listed"),
        ("twin(task=sort, orders=all)", "orders='all' adds the given list"),
        ("twin(task=sudoku, size=4)", "size is for operations on lists"),
        ("twin(task=sudoku, symbols=2)", "'2' has 1 words; expected 2|has 1 words; expected 2"),
        ("twin(symbols=3)", "symbols is 3; expected 1 to 2"),
        ("twin(separators=(1, 1))", "expected three numbers of tokens"),
        ("twin(separators=(1, 1, 99))", "separators is 99; expected 0 to 8"),
        ("twin(item=256)", "item is 256; expected 0 to 255"),
        ("twin(task='lists(operation=shuffle, low=9, high=9)')", "are not listed"),
        ("twin(task=gone)", "unknown task 'gone'"),
        ("twin(task='os:path')", "task is 'os:path'; expected a name without ':'"),
        ("twin(task=gsm8k)", "the items of gsm8k are read from data"),
        ("twin(length=3)", "an answer has 5 tokens, but length is 3"),
        ("twin(orders=some)", "unknown orders 'some'"),
    ],
)
def test_bad_twins(spec, message):
    with pytest.raises(UnmaskError, match=message):
        load(spec)


def test_a_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for task in ("planted:Task", " planted : Task(a=1)"):
        with pytest.raises(UnmaskError, match="expected a name without ':'"):
            from_dict({"kind": "twin", "task": task})


@pytest.mark.parametrize(
    ("separators", "left_to_right", "confident"),
    [
        ((1, 2, 1), True, False),
        ((1, 2, 2), True, True),
        ((2, 2, 2), False, False),
        ((2, 2, 1), False, True),
        ((0, 0, 0), False, False),
    ],
)
def test_pairs_of_positions_decide_which_sampler_shuffles(separators, left_to_right, confident):
    """Two tokens per name and two positions per step, ideal denoiser.

    From the left, no step has two undecided tokens if the pairs straddle names. By confidence, none has if the number
    of sure tokens is odd: each step then completes a name and begins another. A perfect sampler makes no errors at all;
    the others are right in at most 40% of cases, so 100 of 200 rows have a probability below 1e-9 only above 60%.
    """
    language = load(f"twin(size=4, symbols=2, separators={separators})")
    length = language.answers.shape[1]
    for sampler, perfect in (("left-to-right", left_to_right), ("top-probability", confident)):
        made = generate(language, sampler=sampler, length=length, steps=(length + 1) // 2, rows=200)
        right = int(language.supports(made.tokens).sum())
        assert (right == 200) == perfect
        assert perfect or right < 130
