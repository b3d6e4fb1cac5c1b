"""XML before it is parsed as RDF/XML: complete, of bounded depth and of bounded size.

The parser of RDF/XML takes a file that ends in the middle as whole, expands entities without a
limit, and takes a time ∝ the square of the depth.
"""

from xml.parsers import expat

from lkge.data.reading import Budget
from lkge.errors import DataError

MAX_DEPTH = 256


def require_sound_xml(data: bytes, name: str) -> None:
    """DataError if the XML is not well-formed, too deep, or larger than its file by entities."""
    budget, depth = Budget(name), 0
    parser = expat.ParserCreate()

    def line() -> int:
        return parser.CurrentLineNumber

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DataError(
                f"nested deeper than {MAX_DEPTH} elements; write it flatter, or as N-Triples",
                file=name,
                line=line(),
            )
        budget.add(len(tag) + sum(map(len, attributes.values())))

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def declare(entity: str, is_parameter: int, value: str | None, *_: str | None) -> None:
        if is_parameter or value is None or "&" in value:
            raise DataError(
                f"the entity {entity[:40]!r} refers to a file or another entity; write it out",
                file=name,
                line=line(),
            )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda text: budget.add(len(text))
    parser.EntityDeclHandler = declare
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        remedy = "write the entities out" if "amplification" in reason else "mend it"
        complaint = f"not valid XML: {reason}; {remedy}"
        raise DataError(complaint, file=name, line=error.lineno) from error
