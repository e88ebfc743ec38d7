"""JSON Schema, as far as the schemas of this project use it; another word is an error."""

import re

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
SAID = {"$schema", "$defs", "title", "description"}


def faults(value, schema, root=None, place="$"):
    """What is wrong with a value, a line each."""
    root = schema if root is None else root
    found = []
    for word, given in schema.items():
        if word in SAID:
            continue
        found += [f"{place}: {fault}" for fault in _check(word, given, value, schema, root, place)]
    return found


def _is(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name != "boolean")


def _check(word, given, value, schema, root, place):
    if word == "$ref":
        return faults(value, root["$defs"][given.removeprefix("#/$defs/")], root, place)
    if word == "anyOf":
        good = any(not faults(value, other, root, place) for other in given)
        return [] if good else [f"none of the {len(given)} forms"]
    if word == "type":
        names = [given] if isinstance(given, str) else given
        return [] if any(_is(value, name) for name in names) else [f"not {given}"]
    if word == "const":
        return [] if value == given else [f"not {given!r}"]
    if word == "enum":
        return [] if value in given else [f"none of {given}"]
    number = _is(value, "number")
    bad = {
        "minimum": lambda: number and value < given,
        "maximum": lambda: number and value > given,
        "exclusiveMinimum": lambda: number and value <= given,
        "pattern": lambda: isinstance(value, str) and not re.search(given, value),
        "minItems": lambda: isinstance(value, list) and len(value) < given,
        "maxItems": lambda: isinstance(value, list) and len(value) > given,
        "uniqueItems": lambda: isinstance(value, list) and len(set(map(repr, value))) < len(value),
        "required": lambda: isinstance(value, dict) and not set(given) <= set(value),
    }
    if word in bad:
        return [f"against {word} {given}"] if bad[word]() else []
    if word == "items":
        inside = value if isinstance(value, list) else []
        return [
            fault for i, x in enumerate(inside) for fault in faults(x, given, root, f"{place}[{i}]")
        ]
    if word in ("properties", "additionalProperties"):
        named = schema.get("properties", {})
        pairs = value.items() if isinstance(value, dict) else ()
        if word == "properties":
            checked = [(key, x, given[key]) for key, x in pairs if key in given]
        elif given is False:
            return [f"unknown key {key!r}" for key, _ in pairs if key not in named]
        else:
            checked = [(key, x, given) for key, x in pairs if key not in named]
        return [
            fault for key, x, inner in checked for fault in faults(x, inner, root, f"{place}.{key}")
        ]
    raise ValueError(f"unknown word {word!r}")
