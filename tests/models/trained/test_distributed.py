"""Two processes that share every batch train what one process trains, but for the rounding of a sum."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from unmask import UnmaskError
from unmask.cli.main import main
from unmask.models.trained import stored
from unmask.models.trained.distributed import World, is_first, world

OPTIONS = ("--length", "10", "--hidden", "16", "--layers", "1", "--heads", "2")
OPTIONS += ("--steps", "12", "--batch", "8", "--accumulate", "2", "--device", "cpu", "--json")
OPTIONS += ("--optimiser", "adamw")  # Muon computes in bfloat16, and makes much of little differences


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def command(directory):
    return ["train", *OPTIONS, "--language", str(directory.parent / "language.json"), "--out", str(directory)]


def trained(directory, size, monkeypatch):
    """Train as torchrun does, whose environment says who is who: the first process is this one. Returns what the
    others said on stdout and on stderr."""
    port = free_port()

    def about(rank):
        return {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }

    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-m", "unmask", *command(directory)]
    others = [subprocess.Popen(words, env=os.environ | about(rank), **pipes) for rank in range(1, size)]
    with monkeypatch.context() as patch:
        for name, value in about(0).items():
            patch.setenv(name, value)
        assert main(command(directory)) == 0
    said = [process.communicate(timeout=600) for process in others]
    assert [process.returncode for process in others] == [0] * (size - 1), said
    return said


@pytest.mark.rotates(3)
def test_two_processes_train_what_one_trains(tmp_path, capsys, monkeypatch):
    """Nats a token over the tokens of both: brackets of their own lengths would show a mean of means."""
    (tmp_path / "language.json").write_text('{"kind": "brackets", "stop": 0.2}')
    assert main(command(tmp_path / "one")) == 0
    assert capsys.readouterr().out.count("\n") == 1
    ((out, err),) = trained(tmp_path / "two", 2, monkeypatch)
    assert capsys.readouterr().out.count("\n") == 1
    usual = "at work for", "[c10d]"  # of each where it is slow; of torch on a machine without a host name
    said = [line for line in err.splitlines() if not any(words in line for words in usual)]
    assert (out, said) == ("", [])  # the first process speaks
    left, right = (stored.read(tmp_path / name) for name in ("one", "two"))
    one, two = left.tensors, right.tensors
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-5, rtol=1e-3)
    for ours, theirs in zip(left.journal, right.journal, strict=True):
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-5)
        assert theirs["validation"] == pytest.approx(ours["validation"], rel=1e-4)
    whole = load_file(tmp_path / "two" / "model.safetensors")
    assert all(tensor.equal(two[f"average/{name}"]) for name, tensor in whole.items())


def test_parts_of_a_batch_are_all_of_it():
    parts = [World(rank, 3, torch.device("cpu")).part(12) for rank in range(3)]
    assert [list(range(12))[part] for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    with pytest.raises(UnmaskError, match="batch is 8; expected a multiple of 3"):
        World(0, 3, torch.device("cpu")).part(8)


def test_one_process_is_a_world(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with world("cpu") as here:
        assert (here.rank, here.size, here.first, is_first()) == (0, 1, True, True)
        assert here.sum(torch.ones(2)).tolist() == [1, 1]
        here.wait()
    monkeypatch.setenv("RANK", "1")
    assert not is_first()
