"""The content of an old version, or of this one with other settings, as a new version."""

import dataclasses

from lkge.config import RunConfig
from lkge.store.health import FIGURES
from lkge.store.reader import Reader
from lkge.store.records import CONFIG, ROLLBACK, Manifest, VersionRecord, now


def with_content_of(target: Reader, newest: Reader) -> Manifest:
    """The manifest of the next version, with the content of `target`."""
    return _manifest(target, newest, ROLLBACK, f"version {target.version}")


def with_settings(config: RunConfig, source: str, newest: Reader) -> Manifest:
    """The manifest of the next version, with the content of the newest one and other settings."""
    manifest = _manifest(newest, newest, CONFIG, source)
    return dataclasses.replace(manifest, config=config.to_dict())


def _manifest(target: Reader, newest: Reader, kind: str, source: str) -> Manifest:
    """The log goes on, and batches that are learned stay so."""
    old = target.record
    record = VersionRecord(
        version=newest.version + 1,
        kind=kind,
        created=now(),
        new_entities=target.num_entities - newest.num_entities,
        new_relations=target.num_relations - newest.num_relations,
        entities=old.entities,
        relations=old.relations,
        known_facts=old.known_facts,
        mrr_new=old.mrr_new,
        mrr_old=old.mrr_old,
        removed=old.removed,
        candidates=old.candidates,
        drift=0.0,
        source=source,
        verdict=old.verdict,
        causes=old.causes,
        **{name: getattr(old, name) for name in FIGURES},
    )
    return target.manifest.next(
        record,
        last_batch=newest.manifest.last_batch,
        facts_since_consolidation=newest.manifest.facts_since_consolidation,
    )
