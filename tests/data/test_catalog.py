from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from pathlib import Path

import pytest

from lkge.data.catalog import (
    EXPECTED,
    Expected,
    cache_folder,
    digest_of,
    fetch,
    list_datasets,
    load,
    stats,
    verify,
)
from lkge.data.folders import opened
from lkge.errors import DataError, UnknownName

SHARED = Path(__file__).parents[2] / ".." / "shared"
PUBLISHED = SHARED / "data" / "dataset.zip"
TARGETS = SHARED / "paper" / "targets.json"
needs_published = pytest.mark.skipif(
    not (PUBLISHED.exists() and TARGETS.exists()), reason="the published archive is not at hand"
)
needs_brick = pytest.mark.skipif(
    not (resources.files("lkge.data") / "embedded" / "brick.zip").is_file(),
    reason="the embedded dataset is not built",
)

FILES = {
    "data/ENTITY/0/train.txt": "a\tr\tb\nb\tr\tc\n",
    "data/ENTITY/0/test.txt": "a\tr\tc\n",
    "data/ENTITY/1/train.txt": "d\tr\ta\n",
    "data/OWN/0/train.txt": "x\ty\tz\n",
}


def archive(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return archive(tmp_path / "made.zip", FILES)


@pytest.fixture
def expected(made: Path) -> dict[str, Expected]:
    with opened(made) as source:
        return {"ENTITY": digest_of(source, source.layout("ENTITY"))}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LKGE_DATA", "LKGE_DATASET_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LKGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Handler(BaseHTTPRequestHandler):
    """Serves fixed answers: path → (bytes to send, length to announce or None)."""

    def __init__(self, answers: dict[str, tuple[bytes, int | None]], *args: object) -> None:
        self.answers = answers
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path not in self.answers:
            self.send_error(404)
            return
        body, length = self.answers[self.path]
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve bytes from this machine; gives the address. A length of -1 stands for the true one."""
    answers: dict[str, tuple[bytes, int | None]] = {}
    server = HTTPServer(("127.0.0.1", 0), partial(Handler, answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def add(body: bytes, length: int | None = -1) -> str:
        path = f"/{len(answers)}/dataset.zip"
        answers[path] = (body, len(body) if length == -1 else length)
        return f"http://127.0.0.1:{server.server_port}{path}"

    yield add
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetching_keeps_the_archive(
    made: Path, expected: dict[str, Expected], serve: Serve, cache: Path
) -> None:
    steps: list[tuple[int, int | None]] = []
    url = serve(made.read_bytes())
    path = fetch("entity", url=url, progress=lambda *step: steps.append(step), expected=expected)
    assert path == cache / "dataset.zip"
    assert path.read_bytes() == made.read_bytes()
    assert list(cache.iterdir()) == [path]
    assert steps[-1] == (len(made.read_bytes()), len(made.read_bytes()))
    assert len(load("Entity")) == 2


def test_what_is_there_is_not_fetched_again(
    made: Path, expected: dict[str, Expected], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LKGE_DATASET_URL", serve(made.read_bytes()))
    path = fetch("ENTITY", expected=expected)
    before = path.stat().st_ino
    assert fetch("ENTITY", expected=expected).stat().st_ino == before
    path.write_bytes(b"damaged")
    assert fetch("ENTITY", expected=expected).read_bytes() == made.read_bytes()


def test_an_unknown_length_is_no_obstacle(
    made: Path, expected: dict[str, Expected], serve: Serve
) -> None:
    steps: list[tuple[int, int | None]] = []
    url = serve(made.read_bytes(), None)
    fetch("ENTITY", url=url, progress=lambda *step: steps.append(step), expected=expected)
    assert steps[-1] == (len(made.read_bytes()), None)


def test_the_second_address_is_tried_when_the_first_has_nothing(
    made: Path, expected: dict[str, Expected], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve(made.read_bytes())
    monkeypatch.setattr("lkge.data.catalog.URLS", (url + "/none", url))
    assert fetch("ENTITY", expected=expected).exists()


def altered(made: Path, **changes: str) -> bytes:
    files = FILES | {name.replace("__", "/") + ".txt": text for name, text in changes.items()}
    return archive(made.with_name("altered.zip"), files).read_bytes()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda made: made.read_bytes()[:-30], "damaged or not the published"),
        (lambda made: b"<html>sorry</html>", "damaged or not the published"),
        (lambda made: altered(made, data__ENTITY__1__train="d\tr\tb\n"), "other facts"),
        (lambda made: altered(made, data__ENTITY__1__train="d\tr\ta\nd\tr\tb\n"), "5 facts inst"),
        (lambda made: altered(made, data__ENTITY__3__train="d\tr\ta\n"), "snapshot 2 is missing"),
    ],
    ids=["truncated", "no archive", "altered fact", "added fact", "wrong layout"],
)
def test_other_archives_are_not_kept(
    made: Path,
    expected: dict[str, Expected],
    serve: Serve,
    cache: Path,
    damage: Callable[[Path], bytes],
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        fetch("ENTITY", url=serve(damage(made)), expected=expected)
    assert list(cache.iterdir()) == []
    with pytest.raises(DataError, match="run: lkge datasets fetch ENTITY"):
        load("ENTITY")


def test_a_broken_connection(
    made: Path, expected: dict[str, Expected], serve: Serve, cache: Path
) -> None:
    whole = made.read_bytes()
    with pytest.raises(DataError, match=r"could not download .*--data PATH"):
        fetch("ENTITY", url=serve(whole[:-30], len(whole)), expected=expected)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/dataset.zip", "refused"),
        ("no address", "unknown url type"),
        ("{served}/none", "HTTP 404"),
    ],
)
def test_addresses_that_do_not_answer(serve: Serve, url: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"could not download .*{message}.*by hand"):
        fetch("ENTITY", url=url.format(served=serve(b"")))


def test_a_download_without_end(
    made: Path, serve: Serve, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lkge.data.catalog._MAX_BYTES", 100)
    with pytest.raises(DataError, match="far more data"):
        fetch("ENTITY", url=serve(made.read_bytes()))
    assert list(cache.iterdir()) == []


def test_only_the_four_can_be_fetched() -> None:
    with pytest.raises(DataError, match="comes with the package"):
        fetch("Brick")
    with pytest.raises(UnknownName, match="'ENTITY'"):
        fetch("ENTITYS")


def test_a_cache_that_cannot_be_made(
    tmp_path: Path, made: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LKGE_CACHE", str(made / "cache"))
    with pytest.raises(DataError, match="cannot be written"):
        fetch("ENTITY", url=serve(made.read_bytes()))


def test_the_cache_is_where_the_platform_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LKGE_CACHE")
    assert cache_folder().is_absolute()
    assert cache_folder().name == "lkge"


def test_places_are_searched_in_order(
    tmp_path: Path, made: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(number: int) -> dict[str, str]:
        return {"ENTITY/0/train.txt": f"from_{number}\tr\tb\n"}

    cache.mkdir()
    archive(cache / "dataset.zip", only(3))
    assert load("ENTITY").vocabulary.entities[0] == "from_3"
    monkeypatch.setenv("LKGE_DATA", str(archive(tmp_path / "two.zip", only(2))))
    assert load("entity").vocabulary.entities[0] == "from_2"
    one = archive(tmp_path / "one.zip", only(1))
    assert load("ENTITY", data=one).vocabulary.entities[0] == "from_1"
    monkeypatch.setenv(
        "LKGE_DATA", str(archive(tmp_path / "own.zip", {"X/0/train.txt": "a\tr\tb"}))
    )
    assert load("ENTITY").vocabulary.entities[0] == "from_3"


def test_a_data_folder_may_hold_folders_or_the_archive(tmp_path: Path, made: Path) -> None:
    with zipfile.ZipFile(made) as packed:
        packed.extractall(tmp_path / "unpacked")
    (tmp_path / "downloads").mkdir()
    shutil.copy(made, tmp_path / "downloads" / "dataset.zip")
    for data in (tmp_path / "unpacked", tmp_path / "unpacked" / "data", tmp_path / "downloads"):
        assert len(load("entity", data=data)) == 2
        assert load("OWN", data=data).name == "OWN"


def test_a_path_needs_no_name(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(made) as packed:
        packed.extractall(tmp_path)
    monkeypatch.chdir(tmp_path / "data")
    for path in (tmp_path / "data" / "OWN", str(tmp_path / "data" / "OWN"), Path("OWN"), "OWN"):
        assert load(path).name == "OWN"
    with pytest.raises(DataError, match="fetch ENTITY"):
        load("ENTITY")
    assert load("./ENTITY").name == "ENTITY"


def test_missing_datasets_say_what_to_do(tmp_path: Path, made: Path) -> None:
    with pytest.raises(DataError, match="run: lkge datasets fetch FACT"):
        load("fact")
    with pytest.raises(DataError, match=r"made\.zip; .*--data PATH"):
        load("FACT", data=made)
    with pytest.raises(UnknownName, match="'OWN'"):
        load("OWNN", data=made)
    with pytest.raises(UnknownName, match="'brick'"):
        load("brik")
    with pytest.raises(DataError, match="no such folder or archive"):
        load("some/where")
    with pytest.raises(DataError, match="no such folder or archive"):
        load("FACT", data=tmp_path / "none")


def test_the_list_tells_what_is_available(made: Path) -> None:
    names = ["brick", "ENTITY", "RELATION", "FACT", "HYBRID"]
    assert [info.name for info in list_datasets()] == names
    assert [info.name for info in list_datasets() if info.available] == ["brick"]
    listed = {info.name: info for info in list_datasets(made)}
    assert list(listed) == [*names, "OWN"]
    assert listed["ENTITY"].place == listed["OWN"].place == str(made)
    assert not listed["FACT"].available


def test_digests_see_facts_and_not_packing(tmp_path: Path, expected: dict[str, Expected]) -> None:
    assert expected["ENTITY"].facts == 4
    crlf = {name: text.replace("\n", "\r\n").removesuffix("\r\n") for name, text in FILES.items()}
    verify(archive(tmp_path / "crlf.zip", crlf), expected)
    moved = {
        "data/ENTITY/0/train.txt": "a\tr\tb\nb\tr\tc\na\tr\tc\n",
        "data/ENTITY/0/test.txt": "",
        "data/ENTITY/1/train.txt": "d\tr\ta\n",
    }
    with pytest.raises(DataError, match="other facts"):
        verify(archive(tmp_path / "moved.zip", moved), expected)
    with pytest.raises(DataError, match="4 facts instead of 5"):
        verify(tmp_path / "crlf.zip", {"ENTITY": replace(expected["ENTITY"], facts=5)})


def test_statistics_of_a_small_graph(made: Path) -> None:
    assert stats(load("ENTITY", data=made)) == [
        {
            "snapshot": 0,
            "new_facts": 3,
            "train": 2,
            "valid": 0,
            "test": 1,
            "entities": 3,
            "relations": 1,
            "new_entities": 3,
            "new_relations": 1,
        },
        {
            "snapshot": 1,
            "new_facts": 1,
            "train": 1,
            "valid": 0,
            "test": 0,
            "entities": 4,
            "relations": 1,
            "new_entities": 1,
            "new_relations": 0,
        },
    ]


@needs_published
@pytest.mark.parametrize("name", EXPECTED)
def test_statistics_of_the_published_datasets(name: str) -> None:
    counted = json.loads(TARGETS.read_text())["dataset_statistics_as_counted_in_the_files"][name]
    rows = stats(load(name, data=PUBLISHED))
    assert [{key: row[key] for key in counted[0]} for row in rows] == counted


@needs_published
def test_the_published_archive_can_be_fetched(serve: Serve) -> None:
    path = fetch("HYBRID", url=serve(PUBLISHED.read_bytes()))
    assert path.read_bytes() == PUBLISHED.read_bytes()


@needs_brick
def test_the_embedded_dataset() -> None:
    graph = load("Brick")
    assert graph.name == "brick"
    assert len(graph) == 5
    assert all(len(shot.train) for shot in graph.snapshots)


def test_the_place_of_the_data_may_be_a_string(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ENTITY"):
        load("ENTITY", data=str(tmp_path))
