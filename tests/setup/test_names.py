"""Each public name of the product means one thing, and the product uses every name that it defines."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT
from tests.syntax import tree_of

PACKAGES = ("pipeline", "assets", "kclpy", "resources", "sensors")
LAYERS = ("core", "duties", "beside_kcl", "kcl", "aws", "lake")
COMMANDS = ("add", "run")
"""Names that each module of a command has. `headrace` imports these modules by their names."""
UNUSED = {
    "headrace.assets.changes.by_parsing": "commands use it by `tell_dagster`, which imports the module where there is a Dagster",
    "headrace.assets.changes.by_processing": "as by_parsing",
    "headrace.assets.changes.by_reading": "as by_parsing",
    "headrace.kclpy.kcl.RecordProcessorBase": "for users, as in amazon_kclpy",
    "headrace.pipeline.cli.__init__.main": "the headrace command of pyproject.toml",
    "headrace.component.KinesisConsumer": "for users: Dagster finds it by the entry point of pyproject.toml",
    "headrace.pipeline.inspect.as_frame.observe_frame": "for users: docs/use/looking.md",
    "headrace.pipeline.lake.spark.session.stop_local_server": "a test session stops the Spark server that its tests started",
    "headrace.pipeline.lake.spark.server.watch.main": "started by `server_watch.start`, in a process of its own",
    "headrace.pipeline.local.pytest_plugin.headrace_aws": "for users: a fixture, which pytest finds by its name",
    "headrace.pipeline.local.pytest_plugin.headrace_kinesis": "for users: a fixture, which pytest finds by its name",
    "headrace.pipeline.local.server.serve": "for users: docs/start/local.md",
    "headrace.pipeline.source.register.register_spark_source": "for users: docs/use/spark-source.md",
}
"""Names that no part of the product uses, each with the reason why it stays."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def syntax_trees() -> dict[str, ast.Module]:
    """The modules of the product. Not at the top of the file: each process of `make test` imports it, and one runs its tests."""
    return {
        ".".join(("headrace", *path.relative_to(folder).with_suffix("").parts)): tree_of(path)
        for folder, paths in (
            (ROOT, [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]),
            (ROOT / "headrace", sorted((ROOT / "headrace").glob("*.py"))),
        )
        for path in paths
    }


def definitions(tree: ast.Module) -> Iterator[Definition]:
    """The public classes and functions of a module."""
    return (node for node in tree.body if isinstance(node, Definition) and not node.name.startswith("_"))


def uses(modules: Iterable[tuple[str, ast.Module]]) -> set[str]:
    """The full names that modules use: those that they import, and those that they define and read elsewhere in the
    module."""
    return {name for module, tree in modules for name in (*_imported(tree), *_used_at_home(module, tree))}


def _imported(tree: ast.Module) -> Iterator[str]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                aliases[each.asname or each.name] = f"{node.module}.{each.name}"
    yield from aliases.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{aliases.get(node.value.id)}.{node.attr}"


def _used_at_home(module: str, tree: ast.Module) -> Iterator[str]:
    for each in definitions(tree):
        others = (other for other in tree.body if other is not each)
        names = (node.id for other in others for node in ast.walk(other) if isinstance(node, ast.Name))
        if each.name in names:
            yield f"{module}.{each.name}"


def unused(modules: dict[str, ast.Module]) -> set[str]:
    found = uses(modules.items())
    return {
        name
        for module, tree in modules.items()
        for each in definitions(tree)
        if (name := f"{module}.{each.name}") not in found
    }


def test_no_two_public_classes_of_the_product_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for module, tree in syntax_trees().items():
        # The names in kclpy are those of amazon_kclpy.
        for each in () if module.startswith("headrace.kclpy.") else definitions(tree):
            if isinstance(each, ast.ClassDef):
                places.setdefault(each.name, []).append(module)
    assert {name: there for name, there in places.items() if len(there) > 1} == {}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_two_modules_of_a_layer_of_the_engine_share_a_name(layer: str) -> None:
    names = Counter(
        path.stem for path in (ROOT / "pipeline" / layer).rglob("*.py") if path.stem != "__init__"
    )
    assert len(names) > 10
    assert [name for name, times in names.items() if times > 1] == []


def test_the_product_uses_every_name_that_it_defines() -> None:
    found = unused(syntax_trees()) - {
        f"{module}.{name}"
        for module in syntax_trees()
        if module.startswith("headrace.pipeline.cli.")
        for name in COMMANDS
    }
    assert found == set(UNUSED)


def test_a_definition_that_only_its_own_body_reads_counts_as_unused() -> None:
    one = ast.parse(
        "def used(): ...\ndef recursive(): recursive()\nused()\ndef elsewhere(): ...\ndef by_module(): ..."
    )
    other = ast.parse("from a.one import elsewhere\nfrom a import one\none.by_module()")
    assert unused({"a.one": one, "a.other": other}) == {"a.one.recursive"}


def test_no_module_that_dagster_reads_has_its_annotations_as_text() -> None:
    """Dagster's decorators read `config: MyConfig` while the module is loaded; `from __future__ import annotations` makes it a text."""
    read_by_dagster = (
        "headrace.assets.",
        "headrace.resources.",
        "headrace.sensors.",
        "headrace.pipeline.definitions",
    )
    modules = {module: tree for module, tree in syntax_trees().items() if module.startswith(read_by_dagster)}
    with_texts = [
        module
        for module, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert (len(modules) > 20, with_texts) == (True, [])
