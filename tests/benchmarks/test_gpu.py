"""`make gpu` without a GPU: every piece runs with tiny sizes, goes on where it stopped, and never writes results."""

from __future__ import annotations

import json
import signal
import time

import pytest

from benchmarks import gpu
from benchmarks.remake import RESULTS
from reproduction.document import findings
from reproduction.items import ITEMS
from reproduction.records import read
from tests.needs import needs
from tests.sparing import held_out_in_part
from unmask import UnmaskError

CLAIMS = {name: claim for item in ITEMS.values() for name, claim in item.claims.items()}


@pytest.mark.long
@needs("open")
def test_a_dry_run_runs_every_piece(tmp_path, capsys):
    with held_out_in_part():
        assert gpu.main(["--dry-run", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["pieces"] == dict.fromkeys(gpu.pieces(), "done")
    assert found["missed"] == []
    for name in gpu.pieces():
        made = json.loads((tmp_path / f"{name}.json").read_text(), parse_constant=pytest.fail)
        assert {"device", "torch", "commit", "date", "code"} <= made["origin"].keys(), name
        if "records" in made:
            assert len(read(tmp_path / f"{name}.json").records) == len(made["records"]) > 0, name
    checks = json.loads((tmp_path / "parity.json").read_text())["checks"]
    assert len(checks) > 50
    assert all(check["value"] == float("at least" in check["unit"]) for check in checks)  # a CPU against itself
    opened = json.loads((tmp_path / "open-7b.json").read_text())
    assert opened["same_tokens_as_published"] == 1.0
    assert opened["by"].keys() == {"unmask", "published loop"}


@pytest.fixture
def here(tmp_path):
    return gpu.Here("cpu", tmp_path, tmp_path, True)


def piece(run, **options):
    return gpu.Piece("about", 1.0, 1, run, **options)


def test_a_second_call_goes_on(here, monkeypatch):
    """What is done stays; what time ended, what failed and what waits for them is left."""
    ran = []

    def done(name):
        return lambda here: ran.append(name) or {"value": float("inf")}

    def failing(here):
        raise UnmaskError("no")

    def endless(here):
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # the minutes are over now
        time.sleep(60)

    chosen = {"a": piece(done("a")), "b": piece(failing), "c": piece(done("c"), after=("b",)), "d": piece(endless)}
    states = gpu.run(chosen, here, 1.5)
    assert states == {"a": "done", "b": "left", "c": "waits for b", "d": "left"}
    assert json.loads((here.out / "a.json").read_text())["value"] is None
    chosen |= {"b": piece(done("b")), "d": piece(done("d"))}
    assert set(gpu.run(chosen, here, 1.5).values()) == {"done"}
    assert ran == ["a", "b", "c", "d"]


def test_what_does_not_fit_is_told_beforehand(here, monkeypatch, capsys):
    large, long = piece(pytest.fail)._replace(bytes=50 * 10**9), piece(pytest.fail)._replace(minutes=100.0)
    chosen = {"short": piece(lambda here: {}), "long": long, "large": large}
    monkeypatch.setattr(gpu, "available", lambda: 80 * 10**9)
    states = gpu.run(chosen, here._replace(tiny=False), 1.0)
    assert states["large"] == "too large: it needs 50 GB, and 40 GB are available"
    assert (states["short"], states["long"]) == ("done", "left")
    assert "long: needs about 100 minutes, and 1 are left" in capsys.readouterr().err


def test_a_cpu_writes_no_results(monkeypatch, capsys):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main([])
    assert "no CUDA device" in capsys.readouterr().err
    assert not (RESULTS / "gpu").exists() or "cpu" not in {
        json.loads(file.read_text())["origin"]["device"] for file in (RESULTS / "gpu").glob("*.json")
    }


def test_pieces_decide_what_needs_a_gpu_and_no_weights(capsys):
    decided = {name for piece in gpu.pieces().values() for name in piece.claims}
    assert decided <= CLAIMS.keys()
    assert {name for name, c in CLAIMS.items() if "GPU" in c.untested and "weights" not in c.untested} <= decided
    assert gpu.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in decided | gpu.pieces().keys())


@pytest.mark.parametrize("name", ["timing.considerable", "figure-1.speed"])
def test_records_of_a_gpu_decide_claims(tmp_path, name):
    """The times of the poster, as if a GPU had measured them: the last file that decides a claim wins."""
    quick = RESULTS / "paper-quick.json"
    calls = {512: (6.1, 3.3), 1024: (8.2, 3.2), 2048: (9.2, 3.4)}  # milliseconds of a model call, and of a token
    usual = {"n": 5, "level": 0.5, "method": "", "language": "paper-2gram", "preset": "paper", "device": "cuda"}
    records = [
        usual | {"job": "clock", "kind": kind, "batch": batch, "length": length, "measure": "milliseconds"}
        | {"value": ms, "low": ms, "high": ms}
        for length, both in calls.items() for batch in (1, 16) for kind, ms in zip(("mdm", "ar"), both, strict=True)
    ]  # fmt: skip
    records += [record for record in read(quick).records if record["job"] == "valid_steps"]
    origin = {"command": ["gpu"], "code": "", "machine": "", "device": "NVIDIA X"}
    made = {"origin": origin, "size": "full", "seconds": 1.0, "records": records}
    (tmp_path / "timing.json").write_text(json.dumps(made))

    def finding(*paths):
        found = findings(ITEMS, [read(path) for path in paths])
        return {claim.name: finding for own in found.values() for claim, finding in own}

    before, after = finding(quick), finding(quick, tmp_path / "timing.json")
    assert (before[name].verdict, after[name].verdict) == ("not tested", "agrees")
    assert after[name].why.endswith("Measured on NVIDIA X (timing.json).")
    changed = {claim for claim in before if before[claim] != after[claim]}
    assert changed == {"timing.ar", "timing.considerable", "figure-1.speed"}
