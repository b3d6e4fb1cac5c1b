"""`/docs`: the API as a page, made from the OpenAPI schema, without scripts and other hosts."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from lkge.serve.limits import MAX_LINES

PAGE = """\
<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <link rel="icon" href="data:,">
  <title>{title}: API</title>
  <link rel="stylesheet" href="/static/base.css">
  <link rel="stylesheet" href="/static/parts.css">
</head>
<body>
  <header>
    <h1>{title}</h1>
    <p class="lead">{description}</p>
    <nav aria-label="Operations"><a href="/">Page</a><a href="/openapi.json">OpenAPI</a></nav>
  </header>
  <main id="main">{operations}</main>
</body>
</html>
"""
CONDITIONAL = f"""\
Answers of GET have an ETag for the version; with If-None-Match, status 304 says that none came.
/predict/lines takes up to {MAX_LINES:,} queries."""

Schema = Mapping[str, Any]


def page(openapi: Schema) -> str:
    """The whole page."""
    info = openapi["info"]
    return PAGE.format(
        title=escape(info["title"]),
        description=escape(f"{info['description']} {CONDITIONAL}"),
        operations="\n".join(_operations(openapi)),
    )


def _operations(openapi: Schema) -> Iterator[str]:
    schemas = openapi["components"]["schemas"]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            token = "<p>Needs the token for writing.</p>" if operation.get("security") else ""
            yield (
                f'<section class="card" id="{escape(operation["operationId"])}">'
                f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
                f"<p>{escape(operation['description'])}</p>{token}"
                f"{_parameters(operation, schemas)}{_responses(operation)}</section>"
            )


def _parameters(operation: Schema, schemas: Schema) -> str:
    """A table of the parameters, or of the fields of the body with an example."""
    rows = [
        (each["name"], _kind(each["schema"]), each.get("required"), each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {})
    example = ""
    for content, media in body.items():
        schema = _resolved(media["schema"], schemas)
        required = schema.get("required", [])
        rows += [
            (name, _kind(_resolved(each, schemas)), name in required, each.get("description", ""))
            for name, each in schema.get("properties", {}).items()
        ]
        for each in schema.get("examples", [])[:1]:
            text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            example = f"<p>{escape(content)}:</p><pre><code>{escape(text)}</code></pre>"
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td>"
        f"<td>{'required' if required else ''}</td><td>{escape(text)}</td></tr>"
        for name, kind, required, text in rows
    )
    return (f"<table><tbody>{lines}</tbody></table>" if lines else "") + example


def _responses(operation: Schema) -> str:
    statuses = (
        f"{status} {each['description']}" for status, each in operation["responses"].items()
    )
    return f'<p class="note">{escape("; ".join(statuses))}</p>'


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    resolved: Schema = schemas.get(name, schema)
    return resolved


def _kind(schema: Schema) -> str:
    """The type of a value in a few words."""
    kinds = [each.get("type", "") for each in schema.get("anyOf", [schema])]
    return " or ".join(kind for kind in kinds if kind and kind != "null")
