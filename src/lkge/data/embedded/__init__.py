"""The dataset that comes with the package: `brick.zip`, the Brick ontology as it grew.

Brick describes the equipment, points and spaces of buildings. Its releases 1.1, 1.2 (1.2.1),
1.3 (1.3.0), 1.4 (1.4.4) and 1.5 (1.5.0), as packed in the PyPI package `brickschema`, are five
snapshots; snapshot i holds the facts of its release that stood in no earlier one. Facts that a
release dropped stay. Brick is under the BSD-3-Clause licence: see `BRICK-LICENSE.txt` here.

====================  =====  =====  =====  =====  =====
snapshot                  0      1      2      3      4
====================  =====  =====  =====  =====  =====
release                 1.1    1.2    1.3    1.4    1.5
new facts              6514   2747   3111   2126    450
  train                3910   1649   1867   1276    270
  valid                1302    549    622    425     90
  test                 1302    549    622    425     90
entities so far        1534   2324   2969   3535   3631
relations so far         14     16     28     30     30
====================  =====  =====  =====  =====  =====

What `scripts/make_brick.py` does:

* Namespaces that carry a version are unified, so that a thing keeps its identity.
* Facts with a literal or a blank node are dropped; so are loops, and boilerplate: `isDefinedBy`,
  `seeAlso`, `imports`, `license`, and whatever names a term of OWL, RDF, RDFS, SHACL, XSD or DTDL,
  above all the types `Class`, `NodeShape`, `ObjectProperty`.
* Relations that mirror each other are kept once: where at least 4/5 of the facts of one are facts
  of another, as they stand or turned around, the larger of the two takes all its facts. Kept are
  `hasAssociatedTag` (for `isAssociatedWith`), `hasTag` (`isTagOf`), `broader` (`narrower`),
  `hasQuantity` (`hasQuantityKind`), `equivalentClass` (`aliasOf`), `hasQUDTReference` (`sameAs`).
* Of (s, r, o) and (o, r, s) one is kept, as in `equivalentClass` or `disjointWith`.
* Names are local names. Where namespaces clash, those less used put a prefix before theirs: the
  class is `Pump`, the tag `tag:Pump`.
* Each snapshot is divided 3:1:1, ⌊m/5⌋ of m facts for validation and as many for testing, with a
  fixed seed. A fact can be held out only if training facts of this or earlier snapshots show its
  entities and its relation, and if no other fact of the whole dataset links the same two entities
  in either direction; all others are for training.
"""
