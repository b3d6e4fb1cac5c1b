"""`lkge predict`, `lkge similar` and `lkge score`: ask a living graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from lkge.cli.grow import FACT_FILES, AtVersion, Folder, read_files
from lkge.cli.output import AsJson, print_json, show
from lkge.errors import DataError, SettingsError
from lkge.reports import text
from lkge.reports.grids import Cell, Grid, grid_of

if TYPE_CHECKING:
    from lkge.data.facts import NamedFacts
    from lkge.store.reader import Prediction, Reader, ScoredFact

Count = Annotated[int, Option("-k", "--top", min=1, help="How many answers.")]
ASKED = "?"
BAR = 20
"""Letters of a full bar."""
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Question(NamedTuple):
    """A fact with its subject or its object left open, and where it was asked, if in a file."""

    subject: str | None
    relation: str
    object: str | None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"({self.subject or ASKED}, {self.relation}, {self.object or ASKED})"


def predict(
    kg: Folder,
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
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Complete facts: the best objects of a subject and relation, or the best subjects."""
    from lkge.store.reader import open_reader

    questions = questions_of(subject, relation, object_, batch)
    reader = open_reader(kg, version)
    if new and not reader.store.options.known:
        raise SettingsError("--new needs the known facts, which this graph does not keep")
    answered = [(question, answers_to(reader, question, k, new)) for question in questions]
    if as_json:
        trees = [
            {
                "version": reader.version,
                "subject": question.subject,
                "relation": question.relation,
                "object": question.object,
            }
            | {"answers": _trees(reader, answers)}
            for question, answers in answered
        ]
        print_json(trees[0] if batch is None else trees)
    else:
        show(*(answer_grid(reader, *each) for each in answered))


def similar(
    kg: Folder,
    entity: Annotated[str, Argument(metavar="ENTITY", help="The name of an entity.")],
    k: Count = 10,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Find the entities whose embeddings point most nearly the same way."""
    from lkge.store.reader import open_reader

    reader = open_reader(kg, version)
    found = reader.similar(entity, k)
    if as_json:
        answers = [each._asdict() for each in found]
        print_json({"version": reader.version, "entity": entity, "answers": answers})
        return
    rows = [(text.printable(name), bar(cosine), text.number(cosine)) for name, cosine in found]
    title = f"Similar to {text.printable(entity)}"
    show(grid_of(title, ("entity", "", "cosine"), rows, names=2))


def score(
    kg: Folder,
    files: Annotated[list[Path], Argument(metavar="FILE...", help=f"Facts to judge. {FACT_FILES}")],
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Judge facts: how plausible each is, from 0 to 1, and whether it is known."""
    from lkge.store.reader import open_reader

    read = read_files(files)
    reader = open_reader(kg, version)
    scored = [fact for facts in read for fact in scores_of(reader, facts)]
    if as_json:
        print_json({"version": reader.version, "facts": _trees(reader, scored)})
        return
    rows = [(*map(text.printable, fact[:3]), *_judged(reader, fact)) for fact in scored]
    columns = ("subject", "relation", "object", "", "plausibility", "score", "")
    show(grid_of(f"Version {reader.version}", columns, rows, 4, _calibration_note(reader)))


def questions_of(
    subject: str | None, relation: str | None, object_: str | None, batch: Path | None
) -> list[Question]:
    """The question of the flags, or those of a file; they exclude each other."""
    if batch is not None:
        flags = {"-s": subject, "-r": relation, "-o": object_}
        given = [flag for flag, value in flags.items() if value is not None]
        if given:
            raise SettingsError(f"--batch asks what its file says: leave out {', '.join(given)}")
        return read_questions(batch)
    if relation is None or (subject is None) == (object_ is None):
        raise SettingsError("ask with -s SUBJECT -r RELATION, -r RELATION -o OBJECT, or --batch")
    return [Question(subject, relation, object_)]


def read_questions(path: Path) -> list[Question]:
    """One question a line: two names and a `?`, with tabs between."""
    from lkge.data.formats import parse_tsv

    columns = parse_tsv(path.read_bytes(), str(path))
    lists = (columns.subjects, columns.relations, columns.objects, columns.lines or ())
    questions = []
    for subject, relation, object_, line in zip(*lists, strict=True):
        asked = (subject == ASKED, object_ == ASKED)
        if all(asked) or not any(asked) or not all(map(str.strip, (subject, relation, object_))):
            expected = f"expected subject, relation, {ASKED} or {ASKED}, relation, object"
            raise DataError(expected, file=str(path), line=line)
        known = (None if asked[0] else subject, relation, None if asked[1] else object_)
        questions.append(Question(*known, str(path), line))
    return questions


def answers_to(reader: Reader, question: Question, k: int, new: bool) -> list[Prediction]:
    """The answers; an error tells where the question stands, if in a file."""
    subject, relation, object_, file, line = question
    try:
        return reader.predict(subject=subject, relation=relation, object=object_, k=k, new_only=new)
    except DataError as error:
        if file is None:
            raise
        raise DataError(str(error), file=file, line=line) from error


def scores_of(reader: Reader, facts: NamedFacts) -> list[ScoredFact]:
    """The judged facts of a file; an error tells the line."""
    listed = list(facts)
    try:
        return reader.score(listed)
    except DataError:
        for position, fact in enumerate(listed):
            try:
                reader.ids_of([fact])
            except DataError as error:
                raise DataError(f"{facts.place_of(position)}: {error}") from error
        raise


def answer_grid(reader: Reader, question: Question, answers: Sequence[Prediction]) -> Grid:
    """The answers, best first."""
    rows = [(text.printable(answer.entity), *_judged(reader, answer)) for answer in answers]
    columns = ("answer", "", "plausibility", "score", "")
    return grid_of(text.printable(str(question)), columns, rows, 2, _calibration_note(reader))


def bar(share: float) -> str:
    """A bar for a share; below 0 there is none, above 1 it is full."""
    eighths = round(8 * BAR * min(max(share, 0.0), 1.0))
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _judged(reader: Reader, fact: Prediction | ScoredFact) -> tuple[str | Cell, ...]:
    """Plausibility as a bar and a number, score, and whether the fact is known."""
    mark = Cell("known", faint=True) if fact.known else Cell("new", best=True)
    numbers = (text.number(fact.plausibility), text.number(fact.score))
    return (bar(fact.plausibility), *numbers, mark if reader.store.options.known else "")


def _trees(
    reader: Reader, facts: Sequence[Prediction] | Sequence[ScoredFact]
) -> list[dict[str, Any]]:
    """Facts for JSON; `known` is None where the graph does not keep what it knows."""
    unknown = {} if reader.store.options.known else {"known": None}
    return [fact._asdict() | unknown for fact in facts]


def _calibration_note(reader: Reader) -> str:
    from lkge.store.calibration import UNKNOWN

    if reader.curve != UNKNOWN:
        return ""
    return "No fact was held out yet, so plausibility is not calibrated: everything has a half."
