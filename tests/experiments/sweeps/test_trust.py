"""Names in files import nothing: a recipe and a store may be anybody's."""

from __future__ import annotations

import json
import sys

import pytest

from unmask import UnmaskError, sweep
from unmask.core.registry import imports
from unmask.experiments.cell import key_of
from unmask.experiments.run import resume
from unmask.experiments.store import FILE, records, text_of
from unmask.experiments.tables import status

CODE = """
import pathlib
pathlib.Path("was-imported").touch()
from unmask.samplers.rules.fixed_orders import Strided

class Mine(Strided):
    pass

def mine(*, length: int = 3) -> list[dict[str, object]]:
    pathlib.Path("was-called").touch()
    return []

def undeclared(*, length: int = 3):
    pathlib.Path("was-called").touch()
    return []
"""
RECIPE = "name: r\njobs: [{job}]\nfixed: {{language: interval-5, length: 8, sampler: {sampler}}}\nrows: 4\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("stranger", None)


def recipe(place, job="samples", sampler="ancestral"):
    path = place / "r.yaml"
    path.write_text(RECIPE.format(job=job, sampler=sampler))
    return path


SAMPLERS = ["'stranger:Mine'", "\"os:system(command='touch was-called')\"", "\"blocks(inner='stranger:Mine')\""]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_that_a_recipe_names(place, sampler):
    with pytest.raises(UnmaskError, match="imports code, and is named in a file, which is not trusted"):
        sweep(recipe(place, sampler=sampler), engine="here")
    assert not (place / "was-imported").exists()
    assert not (place / "was-called").exists()


@pytest.mark.parametrize("job", ["'stranger:mine'", "\"shutil:rmtree(path='x')\""])
def test_a_metric_that_a_recipe_names(place, job):
    with pytest.raises(UnmaskError, match="imports code, and is named in a file"):
        sweep(recipe(place, job=job), engine="here")
    assert not (place / "was-imported").exists()


def test_a_language_that_a_recipe_names(place):
    path = recipe(place)
    path.write_text(path.read_text().replace("interval-5", "'stranger:Mine'"))
    with pytest.raises(UnmaskError, match="kind of language 'stranger:Mine' imports code"):
        sweep(path, engine="here")
    assert not (place / "was-imported").exists()


def test_who_allows_it_gets_it_and_nothing_else(place):
    made = sweep(recipe(place, sampler="'stranger:Mine'"), engine="here", allow_imports=["stranger"])
    assert {row["measure"] for row in made.rows()} >= {"ser"}
    assert (place / "was-imported").exists()
    with pytest.raises(UnmaskError, match="sampler 'os:system' is a function that is not declared to return a sampler"):
        sweep(recipe(place, sampler=SAMPLERS[1]), engine="here", allow_imports=["os"])
    with pytest.raises(UnmaskError, match="'stranger:undeclared' is a function that is not declared to return a job"):
        sweep(recipe(place, job="'stranger:undeclared'"), engine="here", allow_imports=["stranger"])
    assert not (place / "was-called").exists()


def test_a_program_may_name_what_it_likes(place):
    content = {"name": "r", "jobs": ["stranger:mine"], "fixed": {"length": 2}}
    assert sweep(content, store=place / "s", engine="here").rows() == []
    assert (place / "was-called").exists()


def spoiled(store, planned: str) -> None:
    """The store with a sampler that it did not have, in an unfinished cell of its own key or of the old one."""
    lines = [json.loads(line) for line in (store / FILE).read_text().splitlines()]
    (cell,) = [line for line in lines if line["type"] == "cell"]
    cell["values"]["sampler"] = "stranger:Mine"
    cell["key"] = key_of(cell["job"], cell["values"]) if planned == "own" else cell["key"]
    for line in lines:
        line.pop("crc")
    (store / FILE).write_bytes(b"".join(text_of(line) for line in lines if line["type"] in ("run", "cell")))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["here", "local"])
def test_a_store_imports_what_is_allowed_and_nothing_else(place, engine):
    sweep(recipe(place), store=place / "s", engine="here")
    spoiled(place / "s", "own")
    for allowed in ([], ["other"]):
        with pytest.raises(UnmaskError, match=r"sampler 'stranger:Mine' imports code.* --allow-imports stranger"):
            resume(place / "s", engine=engine, allow_imports=allowed)
        assert not (place / "was-imported").exists()
    made = resume(place / "s", engine=engine, allow_imports=["stranger"])
    assert {row["sampler"] for row in made.rows()} == {"stranger:Mine"}
    assert (place / "was-imported").exists()


def test_what_stands_in_a_store_under_the_key_of_another_cell_is_left_out(place):
    content = {"name": "r", "jobs": ["samples"], "fixed": {"language": "interval-5", "length": 8}, "rows": 4}
    sweep(content, store=place / "s", engine="here")
    spoiled(place / "s", "other")
    made = sweep(content, store=place / "s", engine="here")
    assert {row["sampler"] for row in made.rows()} == {"ancestral"}
    assert not (place / "was-imported").exists()


def test_records_of_a_job_are_read_without_it(place):
    """Also where its module is not there, or not allowed."""
    content = {"name": "r", "jobs": ["stranger:mine"], "fixed": {"length": 2}}
    sweep(content, store=place / "s", engine="here")
    for name in ("stranger.py", "was-imported", "was-called"):
        (place / name).unlink(missing_ok=True)
    with imports(False):
        assert list(records(place / "s")) == []
        assert status(place / "s")["done"] == 1
    assert not (place / "was-imported").exists()


def test_rows_name_their_language_and_their_code(place):
    from unmask import load
    from unmask.core.files import code

    content = {"name": "r", "jobs": ["samples", "theory"], "grid": {"language.seed": [0, 1]}, "rows": 4}
    made = sweep(content | {"fixed": {"language": "paper-2gram", "length": 8}}, store=place / "s", engine="here")
    digests = [load(f"paper-2gram(seed={seed})").source()["digest"] for seed in (0, 1)]
    names = ["paper-2gram", "paper-2gram(seed=1)"]
    assert {(row["language"], row["language_digest"]) for row in made.rows()} == set(zip(names, digests, strict=True))
    assert {row["code_digest"] for row in made.rows()} == {code()}
    assert status(place / "s")["of_other_code"] == 0
    path = place / "s" / FILE
    lines = [json.loads(line.replace(code(), "another")) for line in path.read_text().splitlines()]
    path.write_bytes(b"".join(text_of({name: line[name] for name in line if name != "crc"}) for line in lines))
    assert status(place / "s")["of_other_code"] == 4
    assert {row["code_digest"] for row in made.rows()} == {"another"}
