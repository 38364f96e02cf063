"""The demo's recipe with few short sequences, as a file."""

from __future__ import annotations

from pathlib import Path

from unmask.report.publishing import Selection

TINY = """
name: demo
parts:
  - jobs: [samples, ter_upper(rows=5), autoregressive]
    grid: {language: [paper-2gram, sparse-hmm, interval-5], steps: [2, 8, 64]}
    fixed: {length: 20}
    rows: 20
  - jobs: [prediction]
    grid: {language: [paper-2gram, interval-5]}
    fixed: {length: 20, least: 2, most: 64}
  - jobs: [samples, ter_upper(rows=5), autoregressive]
    grid: {language: [paper-3gram], steps: [2, 8, 64]}
    fixed: {length: 20}
    rows: 6
  - jobs: ["steps_for_ter(rows=5, excess=0.01)", steps_for_ser(ser=0.5)]
    grid: {language: [paper-2gram, interval-5, paper-3gram], length: [10, 20]}
    rows: 6
  - jobs: [samples]
    grid: {language: [paper-2gram], steps: [2, 8]}
    fixed: {length: 20, draw: fitted}
    rows: 20
  - jobs: [samples]
    grid: {language: [paper-2gram, interval-5], sampler: [strided, low-confidence], steps: [2, 8]}
    fixed: {length: 20}
    rows: 20
"""


def demo(directory: Path, *changes: str) -> Selection:
    path = directory / "demo.yaml"
    path.write_text(TINY)
    return Selection(str(path), changes)
