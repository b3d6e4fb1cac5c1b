"""The files of `deploy/` start `lkge serve` with options that it has, and without rights."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from lkge.cli import app

DEPLOY = Path(__file__).parents[1] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
UNIT = (DEPLOY / "lkge@.service").read_text(encoding="utf-8")


def words_of_container() -> list[str]:
    (command,) = re.findall(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.MULTILINE)
    words: list[str] = json.loads(command)
    return words


def words_of_unit() -> list[str]:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    (options,) = re.findall(r'^Environment=LKGE_OPTIONS="(.*)"$', UNIT, re.MULTILINE)
    return shlex.split(command.replace("$LKGE_OPTIONS", options))


@pytest.mark.parametrize("words", [words_of_container(), words_of_unit()])
def test_the_command_is_one(words: list[str]) -> None:
    program, command, *rest = words
    assert (Path(program).name, command) == ("lkge", "serve")
    group = typer.main.get_command(app)
    serve = group.commands["serve"]  # type: ignore[attr-defined]
    given = serve.make_context("serve", rest).params
    assert given["port"] == 8080
    assert given["token_file"] is not None
    assert given["host"] in ("127.0.0.1", "0.0.0.0")


def test_the_container_has_a_user_and_the_extra() -> None:
    assert re.search(r"^USER lkge$", DOCKERFILE, re.MULTILINE)
    assert "'.[serve]'" in DOCKERFILE


def test_the_unit_has_no_rights() -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT)
    service = parser["Service"]
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateDevices", "PrivateTmp"):
        assert service[name] == "yes"
