"""Labels from files: TSV with a name and its label a line, or RDF with rdfs:label."""

from pathlib import Path, PurePath

from lkge.data.facts import bytes_of, read_facts
from lkge.errors import DataError

RDF = (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl", ".jsonld")


def read_label_file(path: Path) -> dict[str, str]:
    """Label by name. The last label of a name counts; an empty one removes its label."""
    if any(suffix.lower() in RDF for suffix in PurePath(path).suffixes[-2:]):
        return dict(read_facts(path).labels)
    labels = {}
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip():
            continue
        name, *rest = line.split("\t")
        if len(rest) != 1 or not name.strip():
            raise DataError(
                "expected a name and its label with a tab between them; mend this line",
                file=path,
                line=number,
            )
        labels[name] = rest[0].strip()
    return labels


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return bytes_of(path, str(path)).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError("not valid UTF-8; save the file as UTF-8", file=path) from error
