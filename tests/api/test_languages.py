"""Every code that zone9 raises has a Turkish sentence, and the sentence needs no word that the code does not carry."""

import ast
import string
from pathlib import Path

import zone9
from zone9.api import turkish

SOURCE = Path(zone9.__file__).parent
RAISED = {
    "Problem", "Refused", "Later", "Never", "Unreachable", "FieldProblem", "Message", "PveError", "plain",
}  # fmt: skip


def sources() -> list[tuple[Path, ast.Module]]:
    """Returns what speaks to people through the API: all but the sandbox, which speaks as Proxmox does."""
    paths = [path for path in SOURCE.rglob("*.py") if "sandbox" not in path.parts]
    return [(path, ast.parse(path.read_text())) for path in paths]


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def codes() -> dict[str, list[str]]:
    """Returns every code, with where it stands."""
    found: dict[str, list[str]] = {}
    for path, tree in sources():
        for node in ast.walk(tree):
            for code in codes_of(node):
                found.setdefault(code, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")  # type: ignore[attr-defined]
    return found


def codes_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [
            code
            for one in node.body
            if isinstance(one, ast.Assign) and [getattr(to, "id", "") for to in one.targets] == ["code"]
            if (code := text_of(one.value)) is not None
        ]
    if not isinstance(node, ast.Call):
        return []
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    given = [text_of(one.value) for one in node.keywords if one.arg == "code"]
    if name == "FieldProblem" and len(node.args) > 2:
        given.append(text_of(node.args[2]))
    if name == "Message" and node.args:
        given.append(text_of(node.args[0]))
    return [one for one in given if one is not None] if name in RAISED or given else []


def test_every_code_has_a_turkish_sentence() -> None:
    found = codes()
    assert len(found) > 80
    missing = {
        code: places
        for code, places in found.items()
        if code not in turkish.DETAIL and code not in turkish.FIELD
    }
    assert not missing


def test_every_sentence_formats_with_what_is_known_and_stays_readable_without() -> None:
    for code, sentence in turkish.DETAIL.items():
        told = turkish.detail(code, {}, "")
        assert told, code
        assert "{" not in told, code
        assert sentence.endswith((".", "}")), code
    for kind in turkish.FIELD:
        assert turkish.field(kind, {}, "") in {turkish.FIELD[kind], turkish.FIELD["value_error"]}


def test_words_of_a_sentence_are_the_words_of_its_code() -> None:
    carried = words_by_code()
    for code, sentence in turkish.DETAIL.items():
        needed = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
        for place, words in carried.get(code, []):
            if words is not None:
                assert needed <= words, (code, place, needed - words)


def words_by_code() -> dict[str, list[tuple[str, set[str] | None]]]:
    """Returns the words that each place gives with its code; None where they cannot be read off the source."""
    found: dict[str, list[tuple[str, set[str] | None]]] = {}
    for path, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name == "Message" and node.args and (code := text_of(node.args[0])) is not None:
                place = f"{path.relative_to(SOURCE)}:{node.lineno}"
                found.setdefault(code, []).append(
                    (place, keys_of(node.args[2] if len(node.args) > 2 else None))
                )
                continue
            if name not in {"Refused", "Later", "Never", "Unreachable"}:
                continue
            code = next((text_of(one.value) for one in node.keywords if one.arg == "code"), None)
            if code is None:
                continue
            unknown = any(one.arg is None for one in node.keywords)
            known = {str(one.arg) for one in node.keywords}
            found.setdefault(code, []).append(
                (f"{path.relative_to(SOURCE)}:{node.lineno}", None if unknown else known)
            )
    return found


def keys_of(node: ast.expr | None) -> set[str] | None:
    if node is None:
        return set()
    if not isinstance(node, ast.Dict):
        return None
    return {key.value for key in node.keys if isinstance(key, ast.Constant)}


def test_every_status_has_a_turkish_title() -> None:
    used = {400, 401, 403, 404, 405, 409, 410, 412, 413, 415, 422, 500, 503}
    assert used <= set(turkish.TITLE)
