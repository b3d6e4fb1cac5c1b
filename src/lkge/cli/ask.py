"""`lkge predict`, `lkge similar` and `lkge score`: ask a living graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lkge.cli.living import FACT_FILES, AtVersion, Folder, read_files
from lkge.cli.output import AsJson, console, print_json
from lkge.cli.questions import Question, questions_of
from lkge.errors import DataError, SettingsError

if TYPE_CHECKING:
    from lkge.data.facts import NamedFacts
    from lkge.reports.tables import Cell, Grid
    from lkge.store.reader import Prediction, Reader, ScoredFact, Similar

Count = Annotated[int, typer.Option("-k", "--top", min=1, help="How many answers.")]
BAR = 20
"""Letters of a full bar."""
EIGHTHS = " ▏▎▍▌▋▊▉█"


def predict(
    kg: Folder,
    subject: Annotated[
        str | None, typer.Option("-s", "--subject", help="Ask for the objects of this subject.")
    ] = None,
    relation: Annotated[
        str | None, typer.Option("-r", "--relation", help="The relation that is asked about.")
    ] = None,
    object_: Annotated[
        str | None, typer.Option("-o", "--object", help="Ask for the subjects of this object.")
    ] = None,
    k: Count = 10,
    batch: Annotated[
        Path | None,
        typer.Option(help="A TSV file of questions: subject, relation, ? or ?, relation, object."),
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Only answers that are not known.")] = False,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Complete facts: the best objects of a subject and relation, or the best subjects."""
    from lkge.reports.tables import rich_table
    from lkge.store.reader import open_reader

    questions = questions_of(subject, relation, object_, batch)
    reader = open_reader(kg, version)
    if new and not reader.store.options.known:
        raise SettingsError("--new needs the known facts, which this graph does not keep")
    answered = [(question, answers_to(reader, question, k, new)) for question in questions]
    if as_json:
        trees = [question_tree(reader, *each) for each in answered]
        print_json(trees[0] if batch is None else trees)
        return
    screen = console()
    for question, answers in answered:
        screen.print(rich_table(answer_grid(reader, question, answers)))


def similar(
    kg: Folder,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="The name of an entity.")],
    k: Count = 10,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Find the entities whose embeddings point most nearly the same way."""
    from lkge.reports.tables import rich_table
    from lkge.store.reader import open_reader

    reader = open_reader(kg, version)
    found = reader.similar(entity, k)
    if as_json:
        answers = [each._asdict() for each in found]
        print_json({"version": reader.version, "entity": entity, "answers": answers})
        return
    console().print(rich_table(similar_grid(entity, found)))


def score(
    kg: Folder,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help=f"Facts to judge. {FACT_FILES}")
    ],
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Judge facts: how plausible each is, from 0 to 1, and whether it is known."""
    from lkge.reports.tables import rich_table
    from lkge.store.reader import open_reader

    read = read_files(files)
    reader = open_reader(kg, version)
    scored = [fact for facts in read for fact in scores_of(reader, facts)]
    if as_json:
        facts = [each._asdict() | {"known": _known(reader, each.known)} for each in scored]
        print_json({"version": reader.version, "facts": facts})
        return
    console().print(rich_table(score_grid(reader, scored)))


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


def question_tree(
    reader: Reader, question: Question, answers: Sequence[Prediction]
) -> dict[str, Any]:
    """A question and its answers for JSON."""
    return {
        "version": reader.version,
        "subject": question.subject,
        "relation": question.relation,
        "object": question.object,
        "answers": [each._asdict() | {"known": _known(reader, each.known)} for each in answers],
    }


def answer_grid(reader: Reader, question: Question, answers: Sequence[Prediction]) -> Grid:
    """The answers, best first."""
    from lkge.reports import text
    from lkge.reports.tables import Cell, Grid

    rows = [
        (
            Cell(text.printable(answer.entity)),
            Cell(bar(answer.plausibility)),
            Cell(text.number(answer.plausibility)),
            Cell(text.number(answer.score)),
            _mark(reader, answer.known),
        )
        for answer in answers
    ]
    return Grid(
        title=text.printable(str(question)),
        columns=("answer", "", "plausibility", "score", ""),
        sections=(tuple(rows),),
        names=2,
        note=_calibration_note(reader),
    )


def similar_grid(entity: str, found: Sequence[Similar]) -> Grid:
    """The neighbours in space, nearest first."""
    from lkge.reports import text
    from lkge.reports.tables import Cell, Grid

    rows = [
        (
            Cell(text.printable(each.entity)),
            Cell(bar(each.similarity)),
            Cell(text.number(each.similarity)),
        )
        for each in found
    ]
    columns = ("entity", "", "cosine")
    return Grid(f"Similar to {text.printable(entity)}", columns, (tuple(rows),), names=2)


def score_grid(reader: Reader, scored: Sequence[ScoredFact]) -> Grid:
    """The facts in the order of their files."""
    from lkge.reports import text
    from lkge.reports.tables import Cell, Grid

    rows = [
        (
            *(Cell(text.printable(name)) for name in fact[:3]),
            Cell(bar(fact.plausibility)),
            Cell(text.number(fact.plausibility)),
            Cell(text.number(fact.score)),
            _mark(reader, fact.known),
        )
        for fact in scored
    ]
    return Grid(
        title=f"Version {reader.version}",
        columns=("subject", "relation", "object", "", "plausibility", "score", ""),
        sections=(tuple(rows),),
        names=4,
        note=_calibration_note(reader),
    )


def bar(share: float) -> str:
    """A bar for a share; below 0 there is none, above 1 it is full."""
    eighths = round(8 * BAR * min(max(share, 0.0), 1.0))
    return EIGHTHS[-1] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _mark(reader: Reader, known: bool) -> Cell:
    from lkge.reports.tables import Cell

    if not reader.store.options.known:
        return Cell("")
    return Cell("known", faint=True) if known else Cell("new", best=True)


def _known(reader: Reader, known: bool) -> bool | None:
    """Whether a fact is known; None where the graph does not keep what it knows."""
    return known if reader.store.options.known else None


def _calibration_note(reader: Reader) -> str:
    from lkge.store.calibration import UNKNOWN

    if reader.curve != UNKNOWN:
        return ""
    return "No fact was held out yet, so plausibility is not calibrated: everything has a half."
