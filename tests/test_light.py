"""Asking a graph imports nothing heavy: torch and numba are for learning, and work without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "store-3"
SCRIPT = """
import json, sys

HEAVY = json.loads(sys.argv[1])
KG = sys.argv[2]


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
    ["score", KG, sys.argv[3]],
    ["methods"],
    ["methods", "show", "evergreen"],
):
    assert ran(*words), words
assert "pip install 'lkge[serve]'" in ran("serve", KG, code=2)
print(json.dumps(found))
"""
HEAVY = (
    *("torch", "numba", "llvmlite", "scipy", "pandas", "matplotlib", "fastapi", "uvicorn"),
    *("pyarrow", "pyoxigraph", "safetensors", "jinja2"),
)


def test_a_graph_is_opened_and_asked_where_heavy_packages_cannot_be_imported(
    tmp_path: Path,
) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("City 03\tlies in\tCountry 3\n")
    words = [sys.executable, "-c", SCRIPT, json.dumps(HEAVY), str(GOLDEN), str(facts)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["early"] == []
    assert (found["predict"], found["similar"], found["score"]) == ("Country 3", 3, True)
    assert found["log"] == 5
