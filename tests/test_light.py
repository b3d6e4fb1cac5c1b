"""Asking a graph imports nothing heavy: torch and numba are for learning, and work without.
Experiments import no web server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "store-3"
BLOCKED = """
import json, sys

HEAVY = json.loads(sys.argv[1])


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"{name} is imported", name=name)


sys.meta_path.insert(0, Refused())

import contextlib, io
import lkge
from lkge.cli import app


def ran(*words, code=0):
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
        try:
            app(words, prog_name="lkge")
        except SystemExit as end:
            assert end.code == code, (words, end.code, shown.getvalue())
    return shown.getvalue()
"""
ASKING = """
import shutil

KG = sys.argv[2]


def refused(*words):
    error = " ".join(ran(*words, code=2).split())
    assert error.startswith("error: this needs ") and "pip install lkge" in error, error


assert "predict" in ran("--help")
early = sorted({"numpy", "pydantic"} & set(sys.modules))
fact = ("City 03", "lies in", "Country 3")
kg = lkge.open(KG)
found = {
    "early": early,
    "predict": kg.predict(subject=fact[0], relation=fact[1], k=3)[0].entity,
    "similar": len(kg.similar(fact[0], k=3)),
    "score": kg.score([fact])[0].known,
    "log": len(kg.log()),
    "health": kg.health().verdict,
    "shown": [repr(kg), kg._repr_html_()[:1]],
}
for words in (
    ["log", KG],
    ["health", KG],
    ["queue", KG],
    ["config", KG],
    ["predict", KG, "-s", fact[0], "-r", fact[1]],
    ["similar", KG, fact[0]],
    ["find", KG, "City"],
    ["suggest", KG, "-k", "2"],
    ["verify", KG],
    ["score", KG, sys.argv[3]],
    ["methods"],
    ["methods", "show", "evergreen"],
):
    assert ran(*words), words
assert "pip install 'lkge[serve]'" in ran("serve", KG, code=2)
own = sys.argv[3] + "-kg"
shutil.copytree(KG, own)
refused("add", own)
refused("relearn", own)
refused("init", own + "-2", "--from", sys.argv[3])
refused("run", "--dataset", "brick", "--out", own + "-run")
refused("report", own)
for learn in (lambda: lkge.run, lambda: lkge.open(own).add([fact, ("A", "lies in", "B")])):
    try:
        learn()
    except lkge.LkgeError as error:
        found["error"] = str(error)
    else:
        raise AssertionError("learned without torch")
print(json.dumps(found))
"""
RESEARCH = """
folder, facts = sys.argv[2:]
settings = ["--set", "training.max_epochs=1", "--dim", "4", "--quiet"]
ran("run", "--dataset", facts, *settings, "--out", folder + "/run")
ran("report", folder + "/run")
with open(folder + "/s.toml", "w") as study:
    study.write(f'datasets = ["{facts}"]\\n[systems.fine-tune]\\n')
assert "no run" in ran("bench", folder + "/s.toml", "--out", folder, "--report-only", code=2)
assert "fine-tune" in ran("methods")
print(sorted(set(HEAVY) & set(sys.modules)))
"""
HEAVY = (
    *("torch", "numba", "llvmlite", "scipy", "pandas", "matplotlib", "fastapi", "uvicorn"),
    *("pyarrow", "pyoxigraph", "safetensors", "jinja2"),
)


SERVER = ("fastapi", "starlette", "uvicorn", "prometheus_client", "optuna", "pandas")


def output_of(script: str, blocked: tuple[str, ...], *words: Path) -> str:
    """What a script prints in a process that cannot import the blocked packages."""
    command = [sys.executable, "-c", BLOCKED + script, json.dumps(blocked), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_graph_is_opened_and_asked_where_heavy_packages_cannot_be_imported(
    tmp_path: Path,
) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("City 03\tlies in\tCountry 3\n")
    found = json.loads(output_of(ASKING, HEAVY, GOLDEN, facts))
    assert found["early"] == []
    assert (found["predict"], found["similar"], found["score"]) == ("Country 3", 3, True)
    assert found["log"] == 5
    assert found["error"].startswith("this needs ")


def test_experiments_run_where_no_web_server_can_be_imported(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{k % 7}\tr{k % 2}\tb{k % 5}\n" for k in range(70)))
    assert output_of(RESEARCH, SERVER, tmp_path, facts).strip() == "[]"
    assert (tmp_path / "run" / "index.html").is_file()
