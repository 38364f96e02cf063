"""Entries by name, groups and columns: each against the plain loop that it stands for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core import entries

NAMES = st.sampled_from("abcdef")
MAPPINGS = st.dictionaries(NAMES, st.none() | st.integers(0, 2))


@given(MAPPINGS, st.lists(NAMES, unique=True))
def test_entries_by_name_are_there_once_and_in_order(mapping, names):
    """Those that are picked and those that are left out make up the whole; None is no entry that is given."""
    picked, others = entries.picked(mapping, names), entries.without(mapping, names)
    assert picked | others == mapping
    assert not picked.keys() & others.keys()
    assert list(picked) == [name for name in names if name in mapping]
    assert list(others) == [name for name in mapping if name not in names]
    assert entries.given(mapping).items() == {item for item in mapping.items() if item[1] is not None}
    assert entries.present(mapping.values()) == list(entries.given(mapping).values())
    assert entries.assignments(mapping) == [f"{name}={value}" for name, value in entries.given(mapping).items()]


@given(st.dictionaries(NAMES, st.integers()))
def test_values_change_under_their_names_and_names_over_their_values(mapping):
    assert entries.mapped(str, mapping) == {name: str(value) for name, value in mapping.items()}
    assert entries.renamed("bits_per_{}", mapping) == {f"bits_per_{name}": value for name, value in mapping.items()}
    assert list(entries.mapped(str, mapping)) == list(mapping)


@given(st.lists(st.tuples(NAMES, st.integers())))
def test_groups_keep_the_order_of_their_items(items):
    groups = entries.grouped(items, lambda item: item[0])
    assert list(groups) == list(dict.fromkeys(name for name, _ in items))
    assert all(group == [item for item in items if item[0] == name] for name, group in groups.items())


def test_fields_of_records_and_of_their_fields():
    records = [SimpleNamespace(at=SimpleNamespace(low=number)) for number in (3, 1)]
    assert entries.column(records, "at.low") == [3, 1]
    with pytest.raises(AttributeError):
        entries.column(records, "high")


@pytest.mark.parametrize(
    ("value", "several"), [("ab", ["ab"]), ([1, 2], [1, 2]), ((1,), [1]), (None, [None]), ({}, [{}])]
)
def test_one_value_or_several(value, several):
    assert entries.several(value) == several


def test_what_is_missing_stays_so_and_zero_is_there():
    assert [entries.chosen(0, 5), entries.chosen(None, 5)] == [0, 5]
    assert [entries.perhaps(str, 0), entries.perhaps(str, None)] == ["0", None]
    assert entries.taken(None, [0]) is None
    assert entries.taken(torch.tensor([4, 5]), torch.tensor([1])).tolist() == [5]
