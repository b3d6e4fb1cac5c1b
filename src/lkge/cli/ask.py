"""`lkge predict`, `lkge similar` and `lkge score`: query a living graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from lkge.cli import grow, output
from lkge.cli.previewed import FACT_FILES, Columns, FileFormat
from lkge.errors import DataError, SettingsError
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.data.facts import NamedFacts
    from lkge.store.reader import Prediction, Reader, ScoredFact

Count = Annotated[int, Option("-k", "--top", min=1, help="How many answers.")]
ASKED = "?"
BAR = 20  # letters of a full bar
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Query(NamedTuple):
    """A fact whose subject or object is asked for."""

    subject: str | None
    relation: str
    object: str | None

    def __str__(self) -> str:
        return f"({self.subject or ASKED}, {self.relation}, {self.object or ASKED})"


def predict(
    kg: grow.Folder,
    subject: Annotated[
        str | None, Option("-s", "--subject", help="Ask for the objects of this subject.")
    ] = None,
    relation: Annotated[
        str | None, Option("-r", "--relation", help="The relation that is asked about.")
    ] = None,
    object_: Annotated[
        str | None, Option("-o", "--object", help="Ask for the subjects of this object.")
    ] = None,
    k: Count = 10,
    batch: Annotated[
        Path | None,
        Option(help="A TSV file of questions: subject, relation, ? or ?, relation, object."),
    ] = None,
    new: Annotated[bool, Option("--new", help="Only answers that are not known.")] = False,
    in_range: Annotated[
        bool,
        Option("--in-range", help="Only answers that known facts of the relation have there."),
    ] = False,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Complete facts: the best objects of a subject and relation, or the best subjects."""
    queries = queries_of(subject, relation, object_, batch)
    reader = grow.opened(kg, version, to_answer=True)
    for flag, given in (("--new", new), ("--in-range", in_range)):
        if given and not reader.keeps_known:
            raise SettingsError(f"{flag} needs the known facts, which this graph does not keep")
    answered = []
    for query, place in queries:
        with _naming(place):
            answers = reader.predict(**query._asdict(), k=k, new_only=new, in_range=in_range)
        answered.append((query, answers))
    if as_json:
        trees = [
            {**_of_version(reader), **query._asdict(), "answers": _trees(reader, answers)}
            for query, answers in answered
        ]
        output.print_json(trees[0] if batch is None else trees)
    else:
        output.show(*(answer_grid(reader, *each) for each in answered))


def similar(
    kg: grow.Folder,
    entity: Annotated[str, Argument(metavar="ENTITY", help="The name of an entity.")],
    k: Count = 10,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Find the entities whose embeddings point most nearly the same way."""
    reader = grow.opened(kg, version, to_answer=True)
    found = reader.similar(entity, k)
    if as_json:
        answers = [each._asdict() for each in found]
        output.print_json({"version": reader.version, "entity": entity, "answers": answers})
        return
    rows = [(text.printable(name), bar(cosine), text.number(cosine)) for name, cosine in found]
    title = f"Similar to {text.printable(entity)}"
    output.show(grids.grid_of(title, ("entity", "", "cosine"), rows, names=2))


def score(
    kg: grow.Folder,
    files: Annotated[list[Path], Argument(metavar="FILE...", help=f"Facts to judge. {FACT_FILES}")],
    columns: Columns = None,
    file_format: FileFormat = None,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Judge facts: how plausible each object is for subject and relation, and what is known."""
    read = grow.read_files(files, columns, file_format)
    reader = grow.opened(kg, version, to_answer=True)
    scored = [fact for facts in read for fact in scores_of(reader, facts)]
    if as_json:
        output.print_json({**_of_version(reader), "facts": _trees(reader, scored)})
        return
    rows = [(*map(text.printable, fact[:3]), *_judged(reader, fact)) for fact in scored]
    titles = ("subject", "relation", "object", "", "plausibility", "score", "")
    note = _calibration_note(reader)
    output.show(grids.grid_of(f"Version {reader.version}", titles, rows, 4, note))


def queries_of(
    subject: str | None, relation: str | None, object_: str | None, batch: Path | None
) -> list[tuple[Query, str]]:
    """The query of the flags, or those of a file with their places; not both."""
    if batch is not None:
        flags = {"-s": subject, "-r": relation, "-o": object_}
        given = [flag for flag, value in flags.items() if value is not None]
        if given:
            raise SettingsError(f"--batch asks what its file says: leave out {', '.join(given)}")
        return read_queries(batch)
    if relation is None or (subject is None) == (object_ is None):
        raise SettingsError("ask with -s SUBJECT -r RELATION, -r RELATION -o OBJECT, or --batch")
    return [(Query(subject, relation, object_), "")]


def read_queries(path: Path) -> list[tuple[Query, str]]:
    """The queries of a file and their places; a line has two names and a `?`, with tabs between."""
    from lkge.data.facts import bytes_of
    from lkge.data.tables import parse_tsv_by_line

    columns = parse_tsv_by_line(bytes_of(path, str(path)), str(path))
    lists = (columns.subjects, columns.relations, columns.objects, columns.lines or ())
    queries = []
    for *names, line in zip(*lists, strict=True):
        subject, relation, object_ = names
        if (subject == ASKED) == (object_ == ASKED) or not all(map(str.strip, names)):
            expected = f"expected subject, relation, {ASKED} or {ASKED}, relation, object"
            raise DataError(expected, file=path, line=line)
        first, last = (None if name == ASKED else name for name in (subject, object_))
        queries.append((Query(first, relation, last), f"{path}:{line}"))
    return queries


def scores_of(reader: Reader, facts: NamedFacts) -> list[ScoredFact]:
    """The scored facts of a file; an error names the line."""
    listed = list(facts)
    try:
        return reader.score(listed)
    except DataError:
        for position, fact in enumerate(listed):
            with _naming(facts.place_of(position)):
                reader.ids_of([fact])
        raise


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Put `place`, if there is one, before the message of a data error."""
    try:
        yield
    except DataError as error:
        if not place:
            raise
        raise DataError(f"{place}: {error}") from error


def answer_grid(reader: Reader, query: Query, answers: Sequence[Prediction]) -> grids.Grid:
    """The answers, best first."""
    rows = [(text.printable(answer.entity), *_judged(reader, answer)) for answer in answers]
    columns = ("answer", "", "plausibility", "score", "")
    return grids.grid_of(text.printable(str(query)), columns, rows, 2, _calibration_note(reader))


def bar(share: float) -> str:
    """A bar for a share; below 0 there is none, above 1 it is full."""
    eighths = round(8 * BAR * min(max(share, 0.0), 1.0))
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _judged(reader: Reader, fact: Prediction | ScoredFact) -> tuple[str | grids.Cell, ...]:
    """Plausibility as a bar and a number, score, and whether the fact is known or out of range."""
    mark = grids.Cell("new", best=True)
    if fact.known or not fact.in_range:
        mark = grids.Cell("known" if fact.known else "out of range", faint=True)
    numbers = (text.number(fact.plausibility), text.number(fact.score))
    return (bar(fact.plausibility), *numbers, mark if reader.keeps_known else "")


def _trees(
    reader: Reader, facts: Sequence[Prediction] | Sequence[ScoredFact]
) -> list[dict[str, Any]]:
    """Facts for JSON; `known` and `in_range` are None if the graph does not keep known facts."""
    unknown = {} if reader.keeps_known else {"known": None, "in_range": None}
    return [fact._asdict() | unknown for fact in facts]


def _of_version(reader: Reader) -> dict[str, Any]:
    """Version and state of calibration for JSON."""
    return {"version": reader.version, "calibrated": reader.calibration.is_known}


def _calibration_note(reader: Reader) -> str:
    if reader.calibration.is_known:
        return ""
    return "Too few facts were held out: plausibility is not calibrated, but a prior by rank."
