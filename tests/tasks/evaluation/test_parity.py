"""lm-eval's own task of GSM8K, its prompts, shots and ends, writes what our runner writes, token for token."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.needs import required
from tests.tasks.data import DATA, needs_data
from unmask.models.open import load_model
from unmask.tasks.evaluation import Settings, evaluate

with required("lm-eval"):
    import lm_eval
    from lm_eval.tasks import TaskManager

    from unmask.tasks.lm_eval import UnmaskLM

pytestmark = needs_data
MANY, SHOTS = 3, 2


def published() -> dict:
    """gsm8k as lm-eval's package has it, but that its data lie here."""
    place = Path(lm_eval.__file__).parent / "tasks" / "gsm8k" / "gsm8k.yaml"
    said = yaml.safe_load(place.read_text())
    files = {"train": str(DATA / "gsm8k_train.jsonl"), "test": str(DATA / "gsm8k_test.jsonl")}
    said |= {"task": "gsm8k_here", "dataset_path": "json", "dataset_kwargs": {"data_files": files}}
    return {name: value for name, value in said.items() if name not in ("dataset_name", "tag")}


@pytest.mark.filterwarnings("ignore")  # lm-eval's own
@pytest.mark.parametrize("batch", [2])
def test_token_for_token(here, monkeypatch, batch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(here / "cache"))
    Path("tasks").mkdir()
    Path("tasks/gsm8k_here.yaml").write_text(yaml.safe_dump(published()))
    model = load_model("m", card="m.json")
    harness = UnmaskLM(model, batch_size=batch, sampler="llada(block_length=4)", steps=12, seed=3)
    made = lm_eval.simple_evaluate(
        model=harness,
        tasks=["gsm8k_here"],
        num_fewshot=SHOTS,
        limit=MANY,
        gen_kwargs="max_gen_toks=12",
        task_manager=TaskManager(include_path="tasks", include_defaults=False),
        bootstrap_iters=0,
        log_samples=True,
    )
    theirs = {one["doc_id"]: one for one in made["samples"]["gsm8k_here"] if one["filter"] == "strict-match"}
    wanted = Settings(
        task=f"gsm8k(shots={SHOTS}, draw='lm-eval', answer_by='strict')",
        data=str(DATA / "gsm8k_test.jsonl"),
        model="m",
        card="m.json",
        sampler=("llada(block_length=4, temperature=0.0)",),
        steps=(12,),
        length=(12,),
        limit=MANY,
        batch=batch,
        seed=3,
    )
    ours = evaluate(wanted, out="o", engine="here").samples
    assert len(theirs) == len(ours) == MANY
    for sample in ours:
        other = theirs[int(sample.item)]
        prompt = other["arguments"][0][0]
        assert sample.prompt == model.tokenizer.decode(model.tokenizer.encode(prompt).tolist())
        assert sample.text == other["resps"][0][0]
        assert sample.right == bool(other["exact_match"])
