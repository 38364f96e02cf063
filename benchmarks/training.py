"""Training: tokens a second of ours, and of the Trainer of transformers with the same model, on the CPU in float32.

Both take the same batches with AdamW, a cosine, clipped gradients, and neither validates nor saves while it is timed.
Ours draws its sequences from the language as it goes and keeps a moving average of the weights; the Trainer is handed
sequences that were drawn before, hides tokens in its collator, and keeps no average. What ours leaves out is what the
last block would compute at positions that are not hidden. Weights are those that training starts from. The claim is
about one thread each, as ours takes one for networks of these sizes; the Trainer with all cores stands beside it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.peers import INSTALL
from benchmarks.timing import Report, Work, main
from unmask import languages
from unmask.core import memory
from unmask.core.threads import torch_threads
from unmask.models.trained import Shape, Trunk, preset
from unmask.models.trained.loop import Conditions, Training
from unmask.models.trained.recipe import Recipe

LANGUAGE = "paper-2gram"
TRAINER = "transformers Trainer"
NEEDED = ("transformers", "accelerate")


class Task(NamedTuple):
    preset: str
    length: int
    batch: int
    steps: int


SIZES = {
    "toy": (Task("quick", 8, 4, 2),),
    "quick": (Task("quick", 32, 128, 10),),
    "full": (Task("quick", 32, 128, 30), Task("small", 128, 64, 10)),
}
REPEATS = {"toy": 1, "quick": 1, "full": 3}


def measure(report: Report) -> None:
    absent = [name for name in NEEDED if find_spec(name) is None]
    report.missing |= {name: INSTALL for name in absent}
    for task in SIZES[report.size]:
        for kind in ("mdm", "ar"):
            shape = preset(task.preset, kind, 8, length=task.length)
            name = f"training {kind.upper()} {task.preset}, L={task.length}, batch {task.batch}, {task.steps} steps"
            with tempfile.TemporaryDirectory() as directory:
                works = {"unmask": _bounded(ours(shape, task, Path(directory)), 1)}
                if not absent:
                    peer = trainer(shape, task, Path(directory))
                    works |= {TRAINER: _bounded(peer, 1), f"{TRAINER}, all cores": _bounded(peer, memory.cores())}
                rows = task.batch * task.steps
                found = report.race(name, rows, task.length, works, REPEATS[report.size], patience=60.0)
            ratio = found[TRAINER].ratio if TRAINER in found else None
            if ratio is not None:
                report.at_least(f"{name}: {TRAINER} / unmask", ratio, 1.0)


def ours(shape: Shape, task: Task, directory: Path) -> Callable[[], None]:
    recipe = Recipe(steps=task.steps, batch=task.batch, rate=1e-3)
    training = Training(languages.load(LANGUAGE), LANGUAGE, shape, recipe, directory, Conditions(device="cpu"))

    def learn() -> None:
        training.step = 0
        with torch_threads(training.threads):  # as many as it takes by itself; batches are drawn beside it
            for _ in training.learn(task.steps):
                pass

    return learn


def trainer(shape: Shape, task: Task, directory: Path) -> Callable[[], object]:
    """As its documentation says, with what is slow and not needed turned off."""
    from transformers import Trainer, TrainingArguments

    drawn = languages.load(LANGUAGE).sample(task.batch * task.steps, shape.length, seed=1)
    arguments = TrainingArguments(
        output_dir=str(directory / "trainer"),
        max_steps=task.steps,
        per_device_train_batch_size=task.batch,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    collate = _hide if shape.kind == "mdm" else _prepend
    peer = Trainer(Peer(shape), arguments, train_dataset=list(drawn), data_collator=lambda rows: collate(rows, shape))
    return peer.train


class Peer(torch.nn.Module):
    """The same network, with the loss that the Trainer asks of its model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.trunk = Trunk(shape)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits, shift = self.trunk(input_ids), int(self.trunk.shape.causal)
        logits, labels = logits[:, : logits.shape[1] - shift], labels[:, shift:]
        return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())}


def _hide(rows: list[torch.Tensor], shape: Shape) -> dict[str, Any]:
    """Each token hidden with the probability of its row's time; the loss over what is hidden."""
    tokens = torch.stack(rows)
    hidden = torch.rand(tokens.shape) < torch.rand(len(tokens), 1)
    return {
        "input_ids": torch.where(hidden, shape.vocabulary, tokens),
        "labels": torch.where(hidden, tokens, -100),
    }


def _prepend(rows: list[torch.Tensor], shape: Shape) -> dict[str, Any]:
    """The start, and all tokens but the last, whose labels are what follows."""
    tokens = torch.stack(rows)
    read = torch.cat([torch.full_like(tokens[:, :1], shape.vocabulary), tokens[:, :-1]], 1)
    return {"input_ids": read, "labels": read}


def _bounded(run: Callable[[], object], threads: int) -> Work:
    def alone() -> None:
        with torch_threads(threads):
            run()

    return Work(alone, threads)


if __name__ == "__main__":
    main(__doc__, measure)
