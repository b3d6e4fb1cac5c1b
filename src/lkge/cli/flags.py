"""Every field of `Settings` as a flag of a command: names, types and defaults come from there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lkge.config import RunConfig, changes_in, configure

GRAPH, MODEL, TRAINING = "Graph and method", "Model", "Training"
STRENGTH, LKGE, MACHINE = "What a method keeps, and how strongly", "LKGE", "Machine"

HELP: Mapping[str, tuple[str, str]] = {
    "dataset": (GRAPH, "A name from `lkge datasets list`, a folder, or a zip archive."),
    "method": (GRAPH, "A name from `lkge methods`."),
    "seed": (GRAPH, "The same seed gives the same bytes on the same machine."),
    "score": (MODEL, "transe, transe-l2, distmult, complex or rotate."),
    "dim": (MODEL, "Numbers per entity and relation; a complex coordinate is two."),
    "batch_size": (TRAINING, "Positive facts per step."),
    "optimizer": (TRAINING, "adam or adagrad."),
    "learning_rate": (TRAINING, "Step size of the optimizer."),
    "objective": (TRAINING, "margin, softmax (over all entities) or sampled (over negatives)."),
    "negatives": (TRAINING, "Corrupted facts per positive fact; softmax has none."),
    "sharing": (TRAINING, "Facts in a row that share their corruptions; 1: each has its own."),
    "rivals": (TRAINING, "Share of all entities that a softmax runs over, drawn for each batch."),
    "margin": (TRAINING, "γ: how much farther a negative must lie than its positive."),
    "adversarial": (TRAINING, "Temperature at which believed negatives weigh more; 0: all alike."),
    "label_smoothing": (TRAINING, "Share of a softmax's target that all candidates get."),
    "relation_weight": (TRAINING, "Weight of a second task: tell the relation from both entities."),
    "n3": (TRAINING, "Weight of the cubes of coordinates, on the rows of each batch."),
    "sparse_n3": (TRAINING, "More of it where entities have few facts, less where many."),
    "l2": (TRAINING, "Weight of the squares of coordinates, on the rows of each batch."),
    "max_epochs": (TRAINING, "Epochs per snapshot, at most."),
    "patience": (TRAINING, "Stop a snapshot after so many epochs without a better validation MRR."),
    "least_gain": (TRAINING, "A better validation MRR is one that is better by this share."),
    "alpha": (STRENGTH, "α: weight of the pull towards the old embeddings (LKGE, EWC, SI)."),
    "beta": (LKGE, "β: weight of the masked autoencoder."),
    "omega": (LKGE, "How ω weighs that pull: printed (as in Eq. 10) or squared."),
    "distillation": (STRENGTH, "δ: weight of old facts against new ones (evergreen); 0: none."),
    "told": (STRENGTH, "κ: how much of the old is told as facts, not held (evergreen)."),
    "heart": (
        STRENGTH,
        "Evergreen learns facts by heart to tell them; off: the last model tells.",
    ),
    "questions": (STRENGTH, "Old questions that evergreen asks again with every batch."),
    "profile": (STRENGTH, "Evergreen keeps which questions were asked; off: it guesses them."),
    "carried_sums": (STRENGTH, "Evergreen's optimizer goes on with what it has gathered."),
    "averaging": (STRENGTH, "Answer with a running mean of what is learned, step by step."),
    "memory": (STRENGTH, "Old facts kept by GEM, EMR and DiCGRL."),
    "neighbours": (STRENGTH, "Facts of an entity that MEAN and LAN look at, at most."),
    "components": (STRENGTH, "Parts that DiCGRL divides an entity's vector into."),
    "active_components": (STRENGTH, "How many of them a relation of DiCGRL uses."),
    "fine_tuning": (LKGE, "Train on every snapshot; off: on the first alone, then only transfer."),
    "autoencoder": (LKGE, "Learn with the masked autoencoder."),
    "transfer": (LKGE, "Initialise new rows from old neighbours."),
    "regularization": (LKGE, "Pull rows towards their old embeddings."),
    "backend": (MACHINE, "auto, numba (fused CPU kernels) or torch."),
    "device": (MACHINE, "Where torch computes: cpu, cuda, mps."),
}
"""Field of Settings → its panel in `--help`, and what it does."""

Command = Callable[..., None]


def option(name: str) -> str:
    """The flag of a field: `batch_size` is `--batch-size`."""
    return "--" + name.replace("_", "-")


def settings_from(
    config: Path | None, flags: Mapping[str, Any], preset: str | None, *, living: bool = False
) -> RunConfig:
    """A flag outweighs the file, and the file outweighs the preset."""
    file = {} if config is None else changes_in(config)
    return configure({**file, **flags}, preset, living=living)


def takes_settings(
    command: Command, *, living: bool = False, leave_out: frozenset[str] = frozenset()
) -> Command:
    """Give a command a flag per setting; those on the command line reach it in `flags`.

    The defaults in its help are those of a run or of a living graph where nothing is named;
    settings to leave out have no flag.
    """
    names = [name for name in HELP if name not in leave_out]

    @functools.wraps(command)
    def with_flags(*, context: typer.Context, **given: Any) -> None:
        flags = {name: given.pop(name) for name in names}
        command(flags={n: v for n, v in flags.items() if _was_given(context, n)}, **given)

    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(parameter for parameter in own if parameter.name != "flags"),
        *_setting_parameters(names, configure({}, living=living)),
    ]
    with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_flags


def _setting_parameters(names: Iterable[str], base: RunConfig) -> list[inspect.Parameter]:
    types = get_type_hints(RunConfig)
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(base, name),
            annotation=Annotated[types[name], _typer_option(name)],
        )
        for name in names
    ]


def _typer_option(name: str) -> Any:
    panel, text = HELP[name]
    return typer.Option(help=text, rich_help_panel=panel)


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
