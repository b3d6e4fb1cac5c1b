"""`lkge predict`, `lkge similar`, `lkge score` and `lkge find`: query a living graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from lkge.cli import grow, output
from lkge.cli.previewed import FACT_FILES, Columns, FileFormat
from lkge.data.vocabulary import INVERSE
from lkge.errors import DataError, SettingsError
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.data.facts import NamedFacts
    from lkge.store.labels import LabelMap
    from lkge.store.reader import Prediction, Reader, ScoredFact
    from lkge.store.relations import RelationPrediction

Count = Annotated[int, Option("-k", "--top", min=1, help="How many answers.")]
ASKED = "?"
BAR = 20  # letters of a full bar
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Query(NamedTuple):
    """A fact of which one part is asked for."""

    subject: str | None
    relation: str | None
    object: str | None

    def shown(self, labels: LabelMap) -> str:
        """The query as people read it."""
        found = labels.of(filter(None, self))
        parts = (text.labelled(name, found.get(name, "")) if name else ASKED for name in self)
        return f"({', '.join(parts)})"


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
        Option(help="A TSV file of questions: subject, relation and object, a ? for one of them."),
    ] = None,
    new: Annotated[bool, Option("--new", help="Only answers that are not known.")] = False,
    in_range: Annotated[
        bool,
        Option("--in-range", help="Only answers that known facts of the relation have there."),
    ] = False,
    unlinked: Annotated[
        bool, Option("--unlinked", help="Only entities in no known fact with the one given.")
    ] = False,
    among: Annotated[
        str | None, Option(metavar="A,B,C", help="Only these entities, with commas between them.")
    ] = None,
    among_file: Annotated[
        Path | None, Option(help="Only the entities of this file, one a line.")
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(
            metavar="RELATION=OBJECT",
            help="Only entities with this known fact, such as type=Pump; may be repeated.",
        ),
    ] = None,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Complete facts: the best objects of a subject and relation, the best subjects, or the best
    relations between two entities."""
    queries = queries_of(subject, relation, object_, batch)
    reader = grow.opened(kg, version, to_answer=True)
    flags = {"--new": new, "--in-range": in_range, "--unlinked": unlinked, "--where": bool(where)}
    for flag, given in flags.items():
        if given and not reader.keeps_known:
            raise SettingsError(f"{flag} needs the known facts, which this graph does not keep")
    limits: dict[str, Any] = {"k": k, "new_only": new, "in_range": in_range}
    of_entities: dict[str, Any] = {
        "unlinked": unlinked,
        "among": names_among(among, among_file),
        "where": [condition(reader, each) for each in where or []],
    }
    answered: list[tuple[Query, Sequence[Prediction] | Sequence[RelationPrediction]]] = []
    for query, place in queries:
        with _naming(place):
            answered.append((query, answers_to(reader, query, limits, of_entities)))
    if as_json:
        trees = [
            {
                **_of_version(reader),
                **query._asdict(),
                "answers": _trees(reader, answers),
                "labels": reader.labels.of(
                    filter(None, (*query, *(answer[0] for answer in answers)))
                ),
            }
            for query, answers in answered
        ]
        output.print_json(trees[0] if batch is None else trees)
    else:
        output.show(*(answer_grid(reader, *each) for each in answered))


def answers_to(
    reader: Reader, query: Query, limits: dict[str, Any], of_entities: dict[str, Any]
) -> Sequence[Prediction] | Sequence[RelationPrediction]:
    """The answers to a query; some limits are for entities only."""
    from lkge.store.relations import predict_relations

    subject, relation, object_ = query
    if relation is not None:
        return reader.predict(
            subject=subject, relation=relation, object=object_, **limits, **of_entities
        )
    for name, value in of_entities.items():
        if value not in (None, False, []):
            raise SettingsError(f"--{name} limits entities; leave it out to ask for a relation")
    return predict_relations(reader, subject=str(subject), object=str(object_), **limits)


def names_among(listed: str | None, file: Path | None) -> list[str] | None:
    """The names of `--among` and `--among-file`; None without either."""
    if listed is None and file is None:
        return None
    names = [name.strip() for name in (listed or "").split(",")]
    if file is not None:
        from lkge.data.label_files import lines_of

        names += lines_of(file)
    return list(filter(None, names))


def condition(reader: Reader, given: str) -> tuple[str, str]:
    """RELATION=OBJECT as a pair. Names may have `=`: the first pair of known names counts, or the
    first one with a known relation."""
    parts = given.split("=")
    pairs = [("=".join(parts[:at]), "=".join(parts[at:])) for at in range(1, len(parts))]
    if not pairs:
        raise SettingsError(f"--where {given}: write RELATION=OBJECT, such as type=Pump")
    relation, entity = reader.names.relation_table, reader.names.entity_table
    known = [pair for pair in pairs if relation.find(pair[0].removesuffix(INVERSE)) is not None]
    whole = [pair for pair in known if entity.find(pair[1]) is not None]
    return (whole or known or pairs)[0]


def find(
    kg: grow.Folder,
    words: Annotated[str, Argument(metavar="TEXT", help="A part of a name or of a label.")],
    relations: Annotated[
        bool, Option("--relations", help="Find relations in place of entities.")
    ] = False,
    k: Count = 10,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Find names by a part of the name or of its label; if there is none, by likeness."""
    from lkge.store.finding import find

    reader = grow.opened(kg, version, to_answer=True)
    found = find(reader, words, k, relations=relations)
    if as_json:
        names = [each._asdict() for each in found]
        output.print_json({"version": reader.version, "text": words, "names": names})
        return
    rows = [(text.printable(name), text.printable(label)) for name, label in found]
    output.show(grids.grid_of(f"Version {reader.version}", ("name", "label"), rows, names=2))


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
        labels = reader.labels.of([entity, *(name for name, _ in found)])
        tree = {"version": reader.version, "entity": entity, "answers": answers, "labels": labels}
        output.print_json(tree)
        return
    shown = labelling(reader)
    rows = [(shown(name), bar(cosine), text.number(cosine)) for name, cosine in found]
    title = f"Similar to {shown(entity)}"
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
        labels = reader.labels.of(name for fact in scored for name in fact[:3])
        tree = {**_of_version(reader), "facts": _trees(reader, scored), "labels": labels}
        output.print_json(tree)
        return
    rows = [(*map(labelling(reader), fact[:3]), *_judged(reader, fact)) for fact in scored]
    titles = ("subject", "relation", "object", "", "plausibility", "score", "")
    note = calibration_note(reader)
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
    if [subject, relation, object_].count(None) != 1:
        raise SettingsError(
            "ask with two of -s SUBJECT, -r RELATION and -o OBJECT, or with --batch"
        )
    return [(Query(subject, relation, object_), "")]


def read_queries(path: Path) -> list[tuple[Query, str]]:
    """The queries of a file and their places; a line has two names and a `?`, with tabs between."""
    from lkge.data.facts import bytes_of
    from lkge.data.tables import parse_tsv_by_line

    columns = parse_tsv_by_line(bytes_of(path, str(path)), str(path))
    lists = (columns.subjects, columns.relations, columns.objects, columns.lines or ())
    queries = []
    for *names, line in zip(*lists, strict=True):
        if names.count(ASKED) != 1 or not all(map(str.strip, names)):
            expected = f"expected subject, relation and object, with {ASKED} for one of them"
            raise DataError(expected, file=path, line=line)
        given = (None if name == ASKED else name for name in names)
        queries.append((Query(*given), f"{path}:{line}"))
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


def answer_grid(
    reader: Reader,
    query: Query,
    answers: Sequence[Prediction] | Sequence[RelationPrediction],
) -> grids.Grid:
    """The answers, best first."""
    shown = labelling(reader)
    rows = [(shown(answer[0]), *_judged(reader, answer)) for answer in answers]
    columns = ("answer", "", "plausibility", "score", "")
    title = query.shown(reader.labels)
    return grids.grid_of(title, columns, rows, 2, calibration_note(reader))


def labelling(reader: Reader) -> Callable[[str], str]:
    """A function from a name to the name with its label."""
    labels = reader.labels
    return lambda name: text.labelled(name, labels.of([name]).get(name, ""))


def bar(share: float) -> str:
    """A bar for a share; below 0 there is none, above 1 it is full."""
    eighths = round(8 * BAR * min(max(share, 0.0), 1.0))
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _judged(
    reader: Reader, fact: Prediction | RelationPrediction | ScoredFact
) -> tuple[str | grids.Cell, ...]:
    """Plausibility as a bar and a number, score, and whether the fact is known or out of range."""
    mark = grids.Cell("new", best=True)
    if fact.known or not fact.in_range:
        mark = grids.Cell("known" if fact.known else "out of range", faint=True)
    numbers = (text.number(fact.plausibility), text.number(fact.score))
    return (bar(fact.plausibility), *numbers, mark if reader.keeps_known else "")


def _trees(
    reader: Reader,
    facts: Sequence[Prediction] | Sequence[RelationPrediction] | Sequence[ScoredFact],
) -> list[dict[str, Any]]:
    """Facts for JSON; `known` and `in_range` are None if the graph does not keep known facts."""
    unknown = {} if reader.keeps_known else {"known": None, "in_range": None}
    return [fact._asdict() | unknown for fact in facts]


def _of_version(reader: Reader) -> dict[str, Any]:
    """Version and state of calibration for JSON."""
    return {"version": reader.version, "calibrated": reader.calibration.is_known}


def calibration_note(reader: Reader) -> str:
    """A sentence if plausibility is not calibrated."""
    if reader.calibration.is_known:
        return ""
    return "Too few facts were held out: plausibility is not calibrated, but a prior by rank."
