"""Labels in RDF: the texts of rdfs:label."""

from dataclasses import dataclass, field

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


NAMES = ("NamedNode", "URIRef")
"""The types of terms that are names, of pyoxigraph and of rdflib."""


@dataclass
class Labels:
    """The label of each name: the first one without a language or in English, else the first."""

    texts: dict[str, str] = field(default_factory=dict)
    plain: dict[str, bool] = field(default_factory=dict)

    def add(self, name: str, text: str, language: str | None) -> None:
        """A text for a name."""
        plain = (language or "en").lower().partition("-")[0] == "en"
        if name not in self.texts or (plain and not self.plain[name]):
            self.texts[name], self.plain[name] = text, plain
