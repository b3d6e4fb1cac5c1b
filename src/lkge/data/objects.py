"""Facts in objects of other libraries, none of which is imported here: tables (pandas,
polars, pyarrow), graphs of rdflib, directed graphs of networkx."""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lkge.data.columns import CERTAIN, KINDS, Chosen, layout_of_names
from lkge.data.named_facts import NamedFacts, left_out_warning
from lkge.errors import DataError

OF_TERMS = {"Literal": "literals", "BNode": "blank nodes"}
"""Terms of rdflib that are no entities → how their facts are counted when they are left out."""


def facts_of_object(source: Any, chosen: Chosen | None) -> NamedFacts | None:
    """The facts of an object of a library that is known; None for anything else."""
    kind = type(source).__name__
    if _is_of("rdflib", source) and hasattr(source, "triples"):
        if chosen is not None:
            raise DataError("RDF has no columns; leave columns out", file=kind)
        return _of_rdflib(source, kind)
    if _is_of("networkx", source) and hasattr(source, "edges"):
        return _of_networkx(source, chosen, kind)
    if hasattr(source, "columns") and hasattr(source, "__getitem__") and hasattr(source, "shape"):
        labels = list(getattr(source, "column_names", source.columns))
        columns = [source[label] for label in labels]
        columns = [each.to_pylist() if hasattr(each, "to_pylist") else each for each in columns]
        return _of_columns([str(label) for label in labels], columns, chosen, kind)
    return None


def _is_of(library: str, source: Any) -> bool:
    return any(each.__module__.partition(".")[0] == library for each in type(source).__mro__)


def _of_columns(
    names: Sequence[str], columns: Sequence[Iterable[Any]], chosen: Chosen | None, source: str
) -> NamedFacts:
    layout = layout_of_names(names, chosen, source)
    found = [
        [_name_of(value, kind, source, row) for row, value in enumerate(columns[place], start=1)]
        for kind, place in zip(KINDS, layout.places, strict=True)
    ]
    subjects, relations, objects = found
    lines = range(1, len(subjects) + 1)
    return NamedFacts(source, subjects, relations, objects, lines, layout=layout)


def _of_networkx(graph: Any, chosen: Chosen | None, source: str) -> NamedFacts:
    """The edges as a table: subject, object, the attributes, and the key of a multigraph, which is
    the relation if it is a text and no attribute has that name."""
    if not graph.is_directed():
        raise DataError(
            "an edge without a direction has no subject and object; give a DiGraph", file=source
        )
    edges = list(graph.edges(data=True))
    attributes = list(dict.fromkeys(str(name) for *_, data in edges for name in data))
    names = ["subject", "object", *attributes]
    rows: list[list[Any]] = [[] for _ in names]
    for subject, object_, data in edges:
        named = {str(name): value for name, value in data.items()}
        values = (subject, object_, *map(named.get, attributes))
        for column, value in zip(rows, values, strict=True):
            column.append(value)
    if graph.is_multigraph():
        keys = [key for *_, key in graph.edges(keys=True)]
        plain = all(isinstance(key, str) for key in keys)
        named_so = any(name.lower() in CERTAIN[1] for name in attributes)
        names.append("relation" if plain and not named_so else "key")
        rows.append(keys)
    if not edges:
        return NamedFacts(source, (), (), (), None)
    return _of_columns(names, rows, chosen, source)


def _of_rdflib(graph: Any, source: str) -> NamedFacts:
    """The statements between IRIs of all graphs."""
    everything = (None,) * 3
    if hasattr(graph, "quads"):
        statements = (quad[:3] for quad in graph.quads((*everything, None)))
    else:
        statements = graph.triples(everything)
    return facts_of_statements(statements, source)


def is_statement(fact: Sequence[str]) -> bool:
    """Whether a triple is one of rdflib."""
    return any(_is_of("rdflib", term) for term in fact)


def facts_of_statements(statements: Iterable[Sequence[str]], source: str) -> NamedFacts:
    """Those of rdflib between IRIs."""
    columns: tuple[list[str], ...] = [], [], []
    left_out = Counter[str]()
    for subject, relation, object_ in statements:
        odd = OF_TERMS.get(type(object_).__name__) or OF_TERMS.get(type(subject).__name__)
        if odd is not None:
            left_out[odd] += 1
            continue
        for column, term in zip(columns, (subject, relation, object_), strict=True):
            column.append(str(term))
    subjects, relations, objects = columns
    warnings = left_out_warning(source, left_out)
    return NamedFacts(source, subjects, relations, objects, None, warnings)


def _name_of(value: Any, kind: str, source: str, row: int) -> str:
    """A text, or a whole number as text."""
    if isinstance(value, str):
        name = str(value)
        try:
            name.encode()
        except UnicodeEncodeError as error:
            complaint = f"the {kind} is not valid Unicode: {error.reason}; mend it"
            raise DataError(complaint, file=source, line=row) from error
        return name
    try:
        if not isinstance(value, bool):
            return str(operator.index(value))
    except TypeError:
        pass
    complaint = f"the {kind} is no text but {repr(value)[:40]}; fill it in or remove the row"
    raise DataError(complaint, file=source, line=row)
