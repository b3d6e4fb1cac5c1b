"""Several processes learn one model: to the bit as one process does, and a lost one ends all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LKGE_WORKER_TIMEOUT": "60",
}


def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def test_the_bytes_do_not_depend_on_workers_losses_or_where_shards_are(tmp_path: Path) -> None:
    done = python("-m", "tests.distributed.workers", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lost = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert len(lost) == 4
    for line in lost:
        assert re.fullmatch(
            r"error: another worker was lost or is silent \(.+\); go on from .+ --resume", line
        )


def test_torchrun_starts_lost_workers_again(tmp_path: Path) -> None:
    data = tmp_path / "data" / "made" / "0"
    data.mkdir(parents=True)
    for n, name in enumerate(("train", "valid", "test")):
        lines = [f"e{k}\tr{k % 2}\te{(3 * k + n + 1) % 20}" for k in range(40)]
        (data / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    settings = {"dim": 8, "max_epochs": 3, "patience": 3}
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    run = ["run", "--dataset", "made", "--data", tmp_path / "data", *chosen, "--out"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    again = [*torchrun, "--max-restarts", "1", "-m", "tests.distributed.losing"]
    done = python(*again, *run, tmp_path / "lost", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["config"]["training"]["partitions"] == 4
    log = (tmp_path / "lost" / "log.jsonl").read_text("utf-8").splitlines()
    assert sum(json.loads(line)["type"] == "RunStarted" for line in log) == 2
    alone = python("-m", "lkge", *run, tmp_path / "alone", "--set", "partitions=4", "--quiet")
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "alone" / "model.safetensors").read_bytes() == (
        tmp_path / "lost" / "model.safetensors"
    ).read_bytes()
